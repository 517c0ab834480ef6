package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/marks"
	"github.com/fencepost/fencepost/internal/schedule"
	"github.com/fencepost/fencepost/token"
)

// Acquire waits for resource and returns its lease. Use it for work that does not fit a
// closure; [Locker.Hold] is easier to use correctly. The caller must release the lease.
// When ctx ends, the lease's context ends and renewal stops. The errors and the rules of
// nesting are those of Hold.
func (l *Locker) Acquire(ctx context.Context, resource string) (*Lease, error) {
	t, err := l.settings(resource)
	if err != nil {
		return nil, err
	}
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
			l.Hooks.notAcquired(ctx, name, time.Since(began), err)
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
		return fmt.Errorf("lock: claim of %s: %w", held.tok, err)
	}
	held.claimed.Store(l, true)
	return nil
}
