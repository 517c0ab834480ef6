package sqlguard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/token"
)

const (
	// grace is how long a COMMIT may take once nobody waits for it, or the
	// lease behind it is over.
	grace = 30 * time.Second
	// goodbye bounds a ROLLBACK. The server rolls back without it too, when
	// the connection is closed.
	goodbye = 5 * time.Second
)

// detached returns a context for what has to be finished although ctx ends.
func detached(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), d)
}

// steady returns a context for a packet. It ends with ctx, but not at once
// where only the lease is over: the mark decides about that packet, and a
// COMMIT in it that is cut off would leave an unknown outcome.
//
//  1. the packet is on its way, the server commits
//  2. the lease is lost, its context ends
//  3. the connection is cut, and the reply "COMMIT" is never read
func steady(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Done() == nil {
		return ctx, func() {}
	}
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		cause, wait := context.Cause(ctx), grace
		if !leaseOver(cause) {
			cancel(cause)
			return
		}
		if deadline, dated := ctx.Deadline(); dated && time.Until(deadline) < wait {
			cause, wait = context.DeadlineExceeded, time.Until(deadline)
		}
		timer := time.AfterFunc(wait, func() { cancel(cause) })
		context.AfterFunc(inner, func() { timer.Stop() })
	})
	return packetContext{inner, ctx}, func() { stop(); cancel(nil) }
}

// packetContext is the caller's context but for its end. It has the caller's
// deadline, for whoever asks, and no timer of its own for it: the caller's has one.
type packetContext struct {
	context.Context
	caller context.Context
}

func (c packetContext) Deadline() (time.Time, bool) { return c.caller.Deadline() }

func (c packetContext) Err() error {
	err := c.Context.Err()
	for _, why := range []error{c.caller.Err(), context.Cause(c.Context)} {
		if err != nil && errors.Is(why, context.DeadlineExceeded) {
			return context.DeadlineExceeded
		}
	}
	return err
}

func leaseOver(cause error) bool {
	return errors.Is(cause, token.ErrLost) || errors.Is(cause, token.ErrReleased)
}

// ended returns an error where the caller has left. A lost lease is not that:
// whether its token may still write is for the mark to say, and a refusal says
// more than the end of a context.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil && !errors.Is(context.Cause(ctx), token.ErrLost) {
		return fmt.Errorf("sqlguard: nothing was sent: %w", err)
	}
	return nil
}

// rollback also gives a pool its connection back. It does nothing after the
// transaction has ended. Its error is of no use: the connection is closed
// then, and the server rolls back.
func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := detached(ctx, goodbye)
	defer cancel()
	_ = tx.Rollback(ctx)
}
