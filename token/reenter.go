package token

import (
	"context"
	"fmt"
)

// reenter returns the lease that ctx already has on resource, or nil and nil
// where it has none. It goes by the live lease and never by a token: a token
// can come from a header, from anybody.
//
//   - live, of this issuer: the same token again. A new number would make the
//     outer frame's writes stale.
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
	case e.lease == nil, e.lease.issuer != l.Issuer:
		return nil, fmt.Errorf("%w: %s", ErrForeign, e.tok)
	case e.lease.ctx.Err() != nil:
		return nil, context.Cause(e.lease.ctx)
	}
	return &Lease{lease: e.lease, outer: ctx, inner: true}, nil
}
