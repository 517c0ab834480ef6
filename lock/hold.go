package lock

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/marks"
	"github.com/fencepost/fencepost/internal/schedule"
	"github.com/fencepost/fencepost/internal/tokenctx"
	"github.com/fencepost/fencepost/token"
)

// Hold waits for resource, runs fn with a context that carries the token, and releases
// the resource. The context ends, with cause [token.ErrLost], before the resource can be
// granted to another holder. If fn panics, Hold releases the resource and the panic
// continues. If the issuer does not reply, Hold returns up to 1.5 s after the end of its
// wait, and up to one TTL after fn.
//
// Holds nest. If ctx carries a live lease of the same resource and issuer, fn runs with
// that lease's token: the nested Hold acquires nothing, and releases nothing when fn
// returns. The context of fn ends with the lease, even if ctx was detached from it by
// [context.WithoutCancel]. If ctx carries another token of the resource, from a request
// or from another issuer's lease, Hold returns [ErrNotLeased].
//
// If fn ran, Hold returns the error of fn, joined with the following; errors.Is finds
// each:
//
//   - [token.ErrLost]: the lease ended while fn ran. It is returned even if fn returned
//     nil. Writes that a guard has admitted are valid. Work without a guard may have
//     overlapped with the next holder's.
//   - [ErrNotReleased]: the work is done, but the resource may stay held until its TTL
//     ends.
//
// If fn did not run, Hold returns one of these:
//
//   - [ErrWaitTimeout], if WaitTimeout has passed.
//   - [token.ErrHeld], if NoWait is set and another holder has the resource.
//   - the cause of ctx, if ctx has ended.
//   - [token.ErrLost], if the lease ended before fn could run, for example because the
//     grant had expired when it arrived.
//   - the error of Claim, or of the issuer.
//   - [ErrNotLeased]: see above.
//   - [ErrNoClaim], a [*token.InvalidError] for an invalid name, or another error for
//     invalid fields of the Locker. Nothing was sent.
func (l *Locker) Hold(ctx context.Context, resource string, fn func(ctx context.Context) error) (err error) {
	held, err := l.Acquire(ctx, resource)
	if err != nil {
		return err
	}
	defer func() { err = held.finish(ctx, err, held.holdAtLeast) }()
	return fn(held.Context())
}

// Acquire waits for resource and returns its lease. Use it for work that does not fit a
// closure; [Locker.Hold] is easier to use correctly. The caller must release the lease.
// When ctx ends, the lease's context ends and renewal stops. The errors and the rules of
// nesting are those of Hold.
func (l *Locker) Acquire(ctx context.Context, resource string) (*Lease, error) {
	t, err := l.settings(resource)
	if err != nil {
		return nil, err
	}
	return l.acquire(ctx, t, resource)
}

func (l *Locker) acquire(ctx context.Context, t settings, resource string) (*Lease, error) {
	held, err := l.reenter(ctx, resource)
	if err != nil {
		return nil, err
	}
	if held != nil {
		if err := l.claim(ctx, held); err != nil {
			return nil, err
		}
		return held, nil
	}
	return l.acquireNew(ctx, t, resource, func() (token.Grant, error) { return l.waitForGrant(ctx, t, resource) })
}

// acquireNew gets a grant and claims it. If the claim was refused and the issuer was then
// recovered, no work has run yet, and acquireNew gets a new grant. name is the resource
// reported to hooks.
func (l *Locker) acquireNew(ctx context.Context, t settings, name string, get func() (token.Grant, error)) (*Lease, error) {
	var refused error
	for attempt := 0; ; attempt++ {
		began := time.Now()
		grant, err := get()
		if err != nil {
			if l.Hooks.NotAcquired != nil {
				l.Hooks.NotAcquired(ctx, name, time.Since(began), err)
			}
			return nil, errors.Join(err, refused)
		}
		held := &Lease{lease: l.newLease(ctx, grant, t)}
		l.Hooks.acquired(held.lease, held.granted.Sub(began))
		held.startRenewal(grant.Until)
		if err = l.claim(ctx, held); err == nil {
			return held, nil
		}
		if !held.recovered || attempt == schedule.MaxReacquisitions {
			return nil, err
		}
		refused = err
	}
}

// newLease returns the lease of grant, under ctx.
func (l *Locker) newLease(ctx context.Context, grant token.Grant, t settings) *lease {
	held := &lease{issuer: l.Issuer, hooks: &l.Hooks, tok: grant.Token, settings: t, granted: time.Now(), raised: grant.Claimed}
	held.entry.index = notScheduled
	ctx, held.cancel = context.WithCancelCause(ctx)
	held.ctx = tokenctx.New(ctx, tokenctx.Entry[token.Token]{
		Token: grant.Token, Resource: grant.Token.Resource, Released: &held.isReleased, Lease: held,
	})
	return held
}

// claim calls Claim. It also returns an error if the lease has ended before the work
// begins: the grant arrived too late, or the lease was lost while Claim ran. If claim
// fails, or Claim panics, it releases the lease, since the caller never receives it.
func (l *Locker) claim(ctx context.Context, held *Lease) (err error) {
	claimed := false
	defer func() {
		if !claimed {
			err = held.finish(ctx, err, 0) // no work ran, so HoldAtLeast does not apply
		}
	}()
	if err := l.claimOnce(held); err != nil {
		return err
	}
	err = context.Cause(held.ctx)
	claimed = err == nil
	return err
}

// claimKey is the context key that marks a running Claim of a Locker on a lease.
type claimKey struct {
	locker *Locker
	lease  *lease
}

// errClaim is in the error of a Claim.
var errClaim = errors.New("lock: claim")

// claimOnce calls Claim, unless this Locker has claimed the lease already. It also
// returns nil inside a running Claim: a Claim that holds the resource itself would
// recurse for ever.
func (l *Locker) claimOnce(held *Lease) error {
	if l.Claim == nil || held.ctx.Err() != nil {
		return nil
	}
	ctx, key := held.Context(), claimKey{l, held.lease}
	if _, done := held.claimed.Load(l); done || ctx.Value(key) != nil {
		return nil
	}
	ctx = marks.NewContext(context.WithValue(ctx, key, true), held.tok, held.raised)
	if err := l.Claim(failpoint.Claim(ctx), held.tok); err != nil {
		return fmt.Errorf("%w of %s: %w", errClaim, held.tok, err)
	}
	held.claimed.Store(l, true)
	return nil
}

// finish ends the lease when the work is done. It joins to err, the error of the work,
// the loss of the lease and the error of the release. It drops the release's ErrLost if
// err is ErrLost already. A nested Hold only ends its own context: the outermost frame
// releases.
func (l *Lease) finish(ctx context.Context, err error, atLeast time.Duration) error {
	lost := context.Cause(l.ctx)
	var released error
	if l.leave != nil {
		l.leave()
	} else {
		err = l.recoverFrom(ctx, err) // before the release, since the release may mint the successor's number
		released = l.release(ctx, atLeast)
	}
	if errors.Is(lost, token.ErrLost) && !errors.Is(err, lost) {
		err = errors.Join(err, lost)
	}
	if released == nil || errors.Is(released, token.ErrLost) && errors.Is(err, token.ErrLost) {
		return err
	}
	return errors.Join(err, released)
}

// reenter returns the lease that ctx already carries for resource, or nil and nil if the
// resource must be acquired. A token without a lease does not count as one, since it can
// come from a request. The cases:
//
//   - a live lease of this issuer or of a wrapper of it: the same token. A new number
//     would make the outer frame's writes stale.
//   - a live lease of another issuer, or a token without a lease: ErrNotLeased. Acquire
//     would wait for its own caller.
//   - a released lease: acquire. The work has outlived its Hold.
//   - a lease that a simulation offers: that for the first Hold; then acquire, as in production.
//   - a lost lease, or one whose context has ended: its cause. A frame that has lost its
//     lease must not continue under a new number.
func (l *Locker) reenter(ctx context.Context, resource string) (*Lease, error) {
	e, offer := tokenctx.FindLease[token.Token](ctx, resource)
	if e == nil || e.Ended() {
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
	failpoint.Note(ctx, failpoint.Reentered{Resource: resource})
	ctx, left := offer.Enter(ctx)
	entered, leave := outer.follow(ctx)
	return &Lease{lease: outer, entered: entered, leave: func() { leave(); left() }}, nil
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
