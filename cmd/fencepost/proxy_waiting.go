package main

import (
	"context"
	"errors"
	"time"

	"github.com/fencepost/fencepost/guard"
)

var (
	// errWaited is the end of a wait that was too long.
	errWaited = errors.New("older requests are still in flight")
	// errFull is one that was too long for a place.
	errFull = errors.New("too many requests in flight")
)

// waiting is a context for what must have happened within a time, and while the
// caller is there. Once it is over it ends with neither.
type waiting struct {
	context.Context
	cancel context.CancelCauseFunc
	stop   func() bool
}

func newWaiting(caller context.Context, d time.Duration) *waiting {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(caller))
	present := context.AfterFunc(caller, func() { cancel(context.Cause(caller)) })
	timer := time.AfterFunc(d, func() { cancel(errWaited) })
	return &waiting{Context: ctx, cancel: cancel, stop: func() bool {
		inTime := timer.Stop()
		return present() && inTime
	}}
}

// over returns nil, or why it was too late: nothing has been sent.
func (w *waiting) over() error {
	if w.stop() {
		return nil
	}
	<-w.Done() // it has begun to end
	return guard.WithLoss(w, context.Cause(w))
}
