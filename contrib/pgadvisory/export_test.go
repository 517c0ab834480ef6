package pgadvisory

import "time"

// With this timeout, a released lock is free when the call returns, however busy the
// server is.
func init() { closeTimeout = 2 * time.Minute }
