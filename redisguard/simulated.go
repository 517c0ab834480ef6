package redisguard

import (
	"context"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
)

// Only this file uses the simulation's switch.

// isTwin reports whether ctx belongs to the unguarded twin of a simulation, whose writes
// are made in report-only mode.
func isTwin(ctx context.Context) bool { return failpoint.IsUnguarded(ctx) }

// asClaim returns ctx for a step that a simulation counts as a claim, whether it succeeds
// or not.
func asClaim(ctx context.Context) context.Context { return failpoint.Claim(ctx) }

// begin reports the first step of key. It returns the context of the commands, whose steps
// a hook must not report too.
func begin(ctx context.Context, key any) context.Context {
	failpoint.At(ctx, failpoint.Begin, key)
	return failpoint.WithKey(ctx, key)
}

// claimSteps begins a claim, and returns a function that reports its last step. A claim
// writes nothing of the caller's.
func claimSteps(ctx context.Context) (inner context.Context, ended func()) {
	claim := new(failpoint.Step) // a unique key
	return begin(ctx, claim), func() { failpoint.At(ctx, failpoint.Undone, claim) }
}

// noteTried reports that w is about to apply a unit once.
func (w *write) noteTried(ctx context.Context, key string) {
	w.unit = key
	failpoint.Note(ctx, failpoint.Tried{Resource: w.resource, Key: key})
}

// drops returns the error of a lost reply if a simulation prevents the write from being
// sent.
func (w *write) drops(ctx context.Context) error {
	if failpoint.DropsCommit(ctx, w) {
		return unknown(w.verb, w.resource, failpoint.ErrLost)
	}
	return nil
}

// ends reports the last step of a write with this result. It returns the result, or an
// error if a simulation drops the reply to a write that was applied.
func (w *write) ends(ctx context.Context, value any, err error) (any, error) {
	if err == nil && !w.first && failpoint.DropsReply(ctx, w) {
		value, err = nil, unknown(w.verb, w.resource, failpoint.ErrLost)
	}
	step := failpoint.LastStep(err, guard.ErrUnknown)
	if w.first { // this call has written nothing
		step = failpoint.Undone
		failpoint.Note(ctx, failpoint.Repeated{Resource: w.resource, Key: w.unit})
	}
	failpoint.At(ctx, step, w)
	return value, err
}
