package token

import (
	"context"
	"fmt"
)

// reenter returns the lease that ctx already has on resource, or nil and nil
// where it has none. It goes by the live lease and never by a token: a token
// can come from a header, from anybody.
//
//   - live, of this issuer, however wrapped: the same token again. A new number
//     would make the outer frame's writes stale.
//   - live, of another issuer, or no lease at all: foreign. Waiting for it
//     would be waiting for the caller.
//   - released: acquired afresh. The work has outlived its Hold.
//   - lost, or given up with its context: its cause. A frame that lost its
//     lease must not go on under a new number as if nothing had been between.
func (l *Locker) reenter(ctx context.Context, resource string) (*Lease, error) {
	e := find(ctx, resource)
	switch {
	case e == nil, e.lease != nil && e.lease.released():
		return nil, nil
	case e.lease == nil:
		return nil, fmt.Errorf("%w: %s", ErrForeign, e.tok)
	case !same(innermost(e.lease.issuer), innermost(l.Issuer)):
		return nil, fmt.Errorf("%w: %s is a lease of another issuer", ErrForeign, e.tok)
	case e.lease.ctx.Err() != nil:
		return nil, context.Cause(e.lease.ctx)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	inner := &Lease{lease: e.lease}
	inner.entered, inner.leave = e.lease.follow(ctx)
	return inner, nil
}

// follow returns a context to work under that carries what ctx does and ends
// with the lease, and what to call when that work is over. It is ctx itself
// where that ends with the lease and with nothing else. It may not end with it
// at all: the entry of a lease stays in what context.WithoutCancel returns.
func (l *lease) follow(ctx context.Context) (context.Context, func()) {
	if ctx.Done() == l.ctx.Done() {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })
	return ctx, func() {
		stop()
		cancel(ErrReleased)
	}
}
