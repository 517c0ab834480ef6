package simulations

import (
	"fmt"
	"runtime/debug"
	"strings"
)

// brokenError is that of a writer whose Do, or Claim, did not return: it
// panicked, or ended its goroutine, as t.FailNow does.
type brokenError struct {
	writer string
	value  any // nil where there was no panic
	stack  string
	steps  []string
}

func (e *brokenError) Error() string {
	steps := strings.Join(e.steps, ", ")
	if e.value == nil {
		return fmt.Sprintf("simulations: %s ended its goroutine, as t.FailNow and require do: Do must return an error; its steps: %s", e.writer, steps)
	}
	return fmt.Sprintf("simulations: %s panicked: %v; its steps: %s\n%s", e.writer, e.value, steps, e.stack)
}

// Unwrap returns what was panicked with, where that is an error.
func (e *brokenError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

// rescue is deferred: a panic must not end the process before anybody has said
// which interleaving it was.
func (w *writer) rescue() {
	value := recover()
	if w.returned {
		return
	}
	w.broken = &brokenError{writer: w.name, value: value, stack: string(debug.Stack()), steps: w.seen()}
}
