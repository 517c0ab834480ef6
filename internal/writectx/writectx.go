// Package writectx derives the contexts of guarded writes. The loss of a lease ends the
// context of its holder but not the write: the mark decides whether the write is applied,
// and a refusal is a more precise result than a cancelled context.
//
//	               not sent yet   already sent          before COMMIT   during COMMIT
//	lease lost     is sent        gets Timeout more     is sent         gets Timeout
//	lease released is not sent    gets Timeout more     is sent         gets Timeout
//	caller cancels is not sent    ends at once          is not sent     gets Timeout
//	deadline ends  is not sent    ends at once          is not sent     gets Timeout
//
// A deadline ends a write that was sent even if the lease is over.
//
// Package httpguard's Transport differs in one cell: if the lease is lost, a request that
// was not sent yet is not sent. The other guards admit the token and write in one step,
// so a stale write is refused. A Transport cannot tell whether the receiver compares
// tokens at all; it may be in report-only mode. If nothing was sent, nothing was applied.
package writectx

import (
	"context"
	"errors"
	"time"

	"github.com/fencepost/fencepost/token"
)

const (
	// Timeout is how long a write that was sent may take after the end of its lease, how
	// long a COMMIT may take, and how long a guard asks what became of a lost one.
	Timeout = 30 * time.Second
	// CleanupTimeout bounds a ROLLBACK, and other statements that are sent before a
	// connection returns to its pool. If they fail, the connection is closed and the
	// server rolls back.
	CleanupTimeout = 5 * time.Second
)

// commitTimeout is Timeout. A test sets a longer one.
var commitTimeout = Timeout

// CheckSend returns an error if nothing may be sent any more, because ctx has ended for
// another reason than the loss of the lease. The error wraps both ctx.Err and the cause.
func CheckSend(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), token.ErrLost) {
		return nil
	}
	return ended(ctx)
}

// CheckCommit returns an error if COMMIT must not be sent, because ctx has ended for
// another reason than the loss or release of the lease.
func CheckCommit(ctx context.Context) error {
	if leaseOver(context.Cause(ctx)) {
		return nil
	}
	return ended(ctx)
}

func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause // also nil
	}
	return &endedError{err, cause}
}

// endedError is the error of a context that was ended with a cause.
type endedError struct{ err, cause error }

func (e *endedError) Error() string   { return e.err.Error() + ": " + e.cause.Error() }
func (e *endedError) Unwrap() []error { return []error{e.err, e.cause} }

func leaseOver(cause error) bool {
	return errors.Is(cause, token.ErrLost) || errors.Is(cause, token.ErrReleased)
}

// remaining returns how long a write that was sent may still take after ctx has ended,
// and the cause of its end then. It returns 0 unless only the lease is over.
func remaining(ctx context.Context) (time.Duration, error) {
	cause := context.Cause(ctx)
	if !leaseOver(cause) {
		return 0, cause
	}
	if deadline, dated := ctx.Deadline(); dated {
		if left := time.Until(deadline); left < Timeout {
			return max(left, 0), context.DeadlineExceeded
		}
	}
	return Timeout, cause
}

// New returns the context of a write that is being sent. It ends with ctx, but if only
// the lease is over, Timeout later. Otherwise the outcome of a COMMIT could become
// unknown:
//
//  1. The write was sent, and the server commits.
//  2. The lease is lost, and its context ends.
//  3. The connection is closed before the reply to COMMIT is read.
func New(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Done() == nil {
		return ctx, func() {}
	}
	inner, cancel, stop := derive(ctx)
	return inner, func() { stop(); cancel(nil) }
}

// Start is [CheckSend] and [New].
func Start(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := CheckSend(ctx); err != nil {
		return nil, nil, err
	}
	inner, cancel := New(ctx)
	return inner, cancel, nil
}

// WithCancelCause is New with a function that also ends the context at once, for a cause.
func WithCancelCause(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	inner, cancel, stop := derive(ctx)
	return inner, func(cause error) { stop(); cancel(cause) }
}

// derive returns no named results: its return would write to a variable that the callback
// of AfterFunc reads.
func derive(ctx context.Context) (context.Context, context.CancelCauseFunc, func() bool) {
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		left, cause := remaining(ctx)
		if left == 0 {
			cancel(cause)
			return
		}
		timer := time.AfterFunc(left, func() { cancel(cause) })
		context.AfterFunc(inner, func() { timer.Stop() })
	})
	return writeContext{inner, ctx}, cancel, stop
}

// writeContext is the caller's context with another end. It returns the caller's deadline
// and needs no timer for it, since the caller's context has one.
type writeContext struct {
	context.Context
	caller context.Context
}

func (c writeContext) Deadline() (time.Time, bool) { return c.caller.Deadline() }

func (c writeContext) Err() error {
	err := c.Context.Err()
	for _, why := range []error{c.caller.Err(), context.Cause(c.Context)} {
		if err != nil && errors.Is(why, context.DeadlineExceeded) {
			return context.DeadlineExceeded
		}
	}
	return err
}

// ForCommit returns the context of a COMMIT, or of asking what became of one. It has its
// own Timeout and does not end with ctx.
func ForCommit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
}

// ForCleanup returns the context of statements, such as a ROLLBACK, that are sent before
// a connection returns to its pool. It does not end with ctx.
func ForCleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), CleanupTimeout)
}
