package simulations

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/token"
)

// The steps of a writer besides those of its transactions and requests.
const (
	stepAcquire = "acquire" // will ask for the lock
	stepHeld    = "held"    // was told that another has it: counts as no step
	stepGranted = "granted" // has it, and does nothing yet
	stepClaimed = "claimed" // has raised the mark
	stepDo      = "do"      // will begin its unit of work
	stepDone    = "done"    // its unit was answered
	stepRelease = "release" // will give the lock back
)

var errCrashed = errors.New("simulations: the writer has crashed")

// writer is one holder: a goroutine that holds the resource and does one unit.
type writer struct {
	*gate
	name   string
	stage  *stage
	visits bool // it holds the resource and does nothing
	cancel context.CancelCauseFunc
	held   chan struct{} // another has the lock
	done   chan struct{}
	err    error // how Hold ended, once done

	returned bool         // Hold has
	broken   *brokenError // it has not, and never will
	did      bool         // its unit was acknowledged

	tok    atomic.Pointer[token.Token]
	asked  atomic.Bool
	since  atomic.Int64 // on the stage's clock, when it asked first
	asleep atomic.Bool  // it renews nothing
	lost   atomic.Bool  // the lock was taken from it, and it must not hear of that
	gone   atomic.Bool  // and the issuer has said so
	dead   atomic.Bool  // what it still asks for does not arrive
	kept   atomic.Bool  // its lease lasts until it has run out
	mute   atomic.Bool  // the answer to its acquisition is lost
	claims atomic.Bool  // what it does now is its claim
	traced atomic.Bool  // somebody has reported its writes
}

// start sends a writer to work that is stopped where stop says.
func (st *stage) start(name string, stop func(int, string) bool) *writer {
	return st.begin(&writer{name: name, gate: newGate(stop)})
}

// visit sends a writer that holds the resource, claims it and writes nothing.
func (st *stage) visit(name string) *writer {
	return st.begin(&writer{name: name, gate: newGate(nowhere), visits: true})
}

func (st *stage) begin(w *writer) *writer {
	w.stage, w.held, w.done = st, make(chan struct{}, 1), make(chan struct{})
	ctx, cancel := context.WithCancelCause(st.ctx)
	w.cancel = cancel
	ctx = point.Listen(ctx, writes(w))
	locker := token.Locker{Issuer: &issuer{w}, Name: w.name, TTL: st.subject.TTL, Claim: w.claim}
	go func() {
		defer close(w.done)
		defer cancel(nil)
		defer w.rescue()
		w.err = locker.Hold(ctx, st.subject.Resource, w.work)
		w.returned = true
	}()
	st.writers = append(st.writers, w)
	return w
}
