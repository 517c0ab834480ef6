package stdsql

import (
	"context"
	"errors"

	"github.com/fencepost/fencepost/token"
)

// asking returns a context to be admitted under. It ends with ctx, but not
// where only the lease is lost: whether its token may still write is for the
// mark to say, and a refusal says more than the end of a context. SQLite's
// busy_timeout bounds it all the same.
func asking(ctx context.Context) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); !errors.Is(cause, token.ErrLost) {
			cancel(cause)
		}
	})
	return inner, func() { stop(); cancel(nil) }
}
