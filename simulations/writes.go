package simulations

import (
	"context"
	"sync"
	"time"

	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
)

// writes listens to what w does: it puts down each transaction that wrote, from
// its beginning to its answer, and lets the gate stop w at every step.
func writes(w *writer) point.Listener {
	var mu sync.Mutex
	open := map[any]time.Duration{}
	return func(ctx context.Context, step point.Step, key any) {
		if step == point.Begin {
			// Noted when the writer goes on: what it is about to begin has not
			// begun while it is stopped here.
			w.pass(string(step))
			mu.Lock()
			defer mu.Unlock()
			open[key] = w.now()
			return
		}
		if ended, op := result(step); ended {
			mu.Lock()
			began, known := open[key]
			delete(open, key)
			mu.Unlock()
			if known && op != "" && !w.claims.Load() {
				w.wrote(ctx, began, op)
			}
		}
		w.pass(string(step))
	}
}

// result says whether step is the end of what began, and of a write how it
// ended.
func result(step point.Step) (ended bool, outcome history.Outcome) {
	switch step {
	case point.Applied:
		return true, history.Accepted
	case point.Unknown:
		return true, history.Unknown
	case point.Undone:
		return true, ""
	}
	return false, ""
}

// wrote takes the token from the context of the write where it carries one.
func (w *writer) wrote(ctx context.Context, began time.Duration, outcome history.Outcome) {
	w.traced.Store(true)
	tok, err := token.FromContext(ctx, w.stage.subject.Resource)
	if held := w.tok.Load(); err != nil && held != nil {
		tok = *held
	}
	w.record(history.Op{
		Kind: history.Write, Outcome: outcome, Began: began,
		Number: tok.Number, Holder: tok.Holder,
	})
}
