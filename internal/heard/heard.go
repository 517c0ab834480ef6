// Package heard puts down, for tests, the steps of a simulation that a context
// has come to.
package heard

import (
	"context"
	"slices"
	"sync"

	"github.com/fencepost/fencepost/internal/point"
)

// Record is what a listener was told. The zero value is ready. Its fields are
// for who knows that nobody is at a step.
type Record struct {
	Steps []point.Step
	Keys  []any                 // of each step
	Look  func(step point.Step) // if not nil, is called while the writer is held up

	mu sync.Mutex
}

// Listen returns a context whose steps are put down.
func (r *Record) Listen(ctx context.Context) context.Context {
	return point.Listen(ctx, func(_ context.Context, step point.Step, key any) {
		r.mu.Lock()
		r.Steps, r.Keys = append(r.Steps, step), append(r.Keys, key)
		r.mu.Unlock()
		if r.Look != nil {
			r.Look(step)
		}
	})
}

// Seen returns the steps up to now, while others may be told.
func (r *Record) Seen() []point.Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.Steps)
}

// Transactions returns the steps, those of one key together in a line.
func (r *Record) Transactions() (lines []string) {
	at := map[any]int{}
	for i, key := range r.Keys {
		if _, known := at[key]; !known {
			at[key] = len(lines)
			lines = append(lines, "")
		} else {
			lines[at[key]] += " "
		}
		lines[at[key]] += string(r.Steps[i])
	}
	return lines
}
