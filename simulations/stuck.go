package simulations

import (
	"fmt"
	"strings"
	"time"
)

// stuckError is that of a writer that nobody stops, and that does not end.
type stuckError struct {
	writer string
	waited time.Duration
	steps  []string
}

func (e *stuckError) Error() string {
	return fmt.Sprintf("simulations: %s has not ended for more than %s; its steps: %s",
		e.writer, e.waited, strings.Join(e.steps, ", "))
}
