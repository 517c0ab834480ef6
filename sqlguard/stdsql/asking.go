package stdsql

import (
	"context"
	"errors"
	"time"

	"github.com/fencepost/fencepost/token"
)

// grace is how long an admission may take once the lease behind it is lost.
const grace = 30 * time.Second

// goodbye bounds what a connection is told before the pool has it back. Where it
// is not answered the connection is thrown away.
const goodbye = 5 * time.Second

// asking returns a context to be admitted under. It ends with ctx, but not at
// once where only the lease is lost: whether its token may still write is for
// the mark to say, and a refusal says more than the end of a context.
func asking(ctx context.Context) (context.Context, context.CancelFunc) {
	inner, release := context.WithoutCancel(ctx), context.CancelFunc(func() {})
	deadline, dated := ctx.Deadline()
	if dated {
		inner, release = context.WithDeadline(inner, deadline)
	}
	inner, cancel := context.WithCancelCause(inner)
	stop := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		switch {
		case dated && ctx.Err() == context.DeadlineExceeded: // inner's own says so too, as a deadline
		case errors.Is(cause, token.ErrLost):
			timer := time.AfterFunc(grace, func() { cancel(cause) })
			context.AfterFunc(inner, func() { timer.Stop() })
		default:
			cancel(cause)
		}
	})
	return inner, func() { stop(); cancel(nil); release() }
}
