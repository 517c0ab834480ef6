package lock

import (
	"context"
	"fmt"
	"reflect"

	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/tokenctx"
	"github.com/fencepost/fencepost/token"
)

// reenter returns the lease that ctx already carries for resource, or nil and nil if the
// resource must be acquired. A token without a lease does not count as one, since it can
// come from a request. The cases:
//
//   - a live lease of this issuer or of a wrapper of it: the same token. A new number
//     would make the outer frame's writes stale.
//   - a live lease of another issuer, or a token without a lease: ErrNotLeased. Acquire
//     would wait for its own caller.
//   - a released lease: acquire. The work has outlived its Hold.
//   - a lease of a simulation around the code, now released: acquire, as in production.
//   - a lost lease, or one whose context has ended: its cause. A frame that has lost its
//     lease must not continue under a new number.
func (l *Locker) reenter(ctx context.Context, resource string) (*Lease, error) {
	e := tokenctx.Find[token.Token](ctx, resource)
	if e == nil || e.Ended() || failpoint.Reacquires(ctx, resource) {
		return nil, nil
	}
	outer, ok := e.Lease.(*lease)
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: %s", ErrNotLeased, e.Token)
	case !same(innermost(outer.issuer), innermost(l.Issuer)):
		return nil, fmt.Errorf("%w: %s is a lease of another issuer", ErrNotLeased, e.Token)
	case outer.ctx.Err() != nil:
		return nil, context.Cause(outer.ctx)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	ctx, left := failpoint.EnterHold(ctx, resource)
	inner := &Lease{lease: outer}
	entered, leave := outer.follow(ctx)
	inner.entered, inner.leave = entered, func() { leave(); left() }
	return inner, nil
}

// follow returns a context with the values of ctx that also ends with the lease, and a
// function to call when the work is done. A ctx can outlive the lease, since
// context.WithoutCancel keeps the lease's entry. If ctx ends exactly when the lease does,
// follow returns ctx itself.
func (l *lease) follow(ctx context.Context) (context.Context, func()) {
	if ctx.Done() == l.ctx.Done() {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })
	return ctx, func() {
		stop()
		cancel(token.ErrReleased)
	}
}

// innermost follows Unwrap from iss and returns the last comparable issuer. Two wrappers
// of an issuer that is not comparable count as two issuers.
func innermost(iss token.Issuer) token.Issuer {
	found := iss
	for {
		wrapper, ok := iss.(interface{ Unwrap() token.Issuer })
		if !ok {
			return found
		}
		if iss = wrapper.Unwrap(); iss == nil {
			return found
		}
		if isComparable(iss) {
			found = iss
		}
	}
}

// isComparable reports whether iss can be compared with ==, as an issuer should be.
func isComparable(iss token.Issuer) bool { return reflect.ValueOf(iss).Comparable() }

func same(a, b token.Issuer) bool { return isComparable(a) && isComparable(b) && a == b }
