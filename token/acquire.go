package token

import (
	"context"
	"errors"
	"time"

	"github.com/fencepost/fencepost/internal/tenure"
)

// Acquire waits for resource and returns its lease, for work that does not fit
// a closure; [Locker.Hold] is easier to get right. The lease must be released.
// It follows ctx: when ctx ends, the lease's context does, and renewing stops.
// For errors and re-entry see Hold.
func (l *Locker) Acquire(ctx context.Context, resource string) (*Lease, error) {
	return l.acquire(ctx, resource, false)
}

// TryAcquire is Acquire without waiting: where somebody else holds the
// resource the error is [ErrHeld], at once.
func (l *Locker) TryAcquire(ctx context.Context, resource string) (*Lease, error) {
	return l.acquire(ctx, resource, true)
}

func (l *Locker) acquire(ctx context.Context, resource string, try bool) (*Lease, error) {
	t, err := l.terms(resource)
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
	return l.take(ctx, t, func() (Grant, error) { return l.grant(ctx, t, resource, try) })
}

// take gets a grant, and claims it. A claim that healed the issuer is made
// again, for a new grant: nothing has run yet under the old one.
func (l *Locker) take(ctx context.Context, t terms, get func() (Grant, error)) (*Lease, error) {
	var refused error
	for again := 0; ; again++ {
		asked := time.Now()
		grant, err := get()
		if err != nil {
			return nil, errors.Join(err, refused)
		}
		held := &Lease{lease: l.newLease(ctx, grant, t)}
		l.Observer.acquired(held.lease, held.granted.Sub(asked))
		held.begin(grant.Until)
		if err = l.claim(ctx, held); err == nil {
			return held, nil
		}
		if !held.healed || again == tenure.HealAtMost {
			return nil, err
		}
		refused = err
	}
}
