package process

import "github.com/fencepost/fencepost/internal/history"

// History returns the operations of all writers.
func History(c Counts) history.History { return c.history }
