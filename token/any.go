package token

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"
)

// AcquireAny waits for one of several resources, whichever is free first: a
// semaphore is N slots, each a resource of its own ("pool/1", "pool/2", …),
// with marks and numbers of its own. No number is shared between holders: one
// of two holders of the same resource would be stale. The lease's token says
// which one it is. Under a live lease of one of them, that is the one. A
// caller stands in each slot's line and leaves the others when it is served;
// where two are granted at once, the second passes on. Errors are those of
// Hold, for all of the slots.
func (l *Locker) AcquireAny(ctx context.Context, resources ...string) (*Lease, error) {
	slots, err := names(resources)
	if err != nil {
		return nil, err
	}
	t, err := l.terms(slots[0])
	if err != nil {
		return nil, err
	}
	for _, slot := range slots {
		if e := find(ctx, slot); e != nil && (e.lease == nil || !e.lease.released()) {
			return l.acquire(ctx, slot, false)
		}
	}
	rand.Shuffle(len(slots), func(a, b int) { slots[a], slots[b] = slots[b], slots[a] })
	return l.take(ctx, t, func() (Grant, error) {
		asked := time.Now()
		grant, err := l.grantAny(ctx, t, slots)
		if err != nil {
			l.Observer.gaveUp(ctx, strings.Join(slots, ","), time.Since(asked), err)
		}
		return grant, err
	})
}

// HoldAny is [Locker.Hold] for one of several resources: see AcquireAny. fn is
// told which.
func (l *Locker) HoldAny(ctx context.Context, resources []string,
	fn func(ctx context.Context, resource string) error) (err error) {
	held, err := l.AcquireAny(ctx, resources...)
	if err != nil {
		return err
	}
	defer func() { err = held.end(ctx, err, held.atLeast) }()
	return fn(held.Context(), held.tok.Resource)
}

// grantAny tries each slot, and then waits for all of them. One that fails does
// not matter as long as another is granted.
func (l *Locker) grantAny(ctx context.Context, t terms, slots []string) (Grant, error) {
	ctx, cancel := waitContext(ctx, t.wait)
	defer cancel()
	t.wait = 0
	for _, slot := range slots {
		if grant, err := l.obtain(ctx, t, slot, true); err == nil || ctx.Err() != nil {
			return grant, err
		}
	}
	return l.waitAny(ctx, t, slots)
}

// offer is what became of the waiting for one slot.
type offer struct {
	grant Grant
	err   error
}

// waitAny takes the first grant. The other waiters leave their lines behind its
// back: it must not wait for them with its lease running.
func (l *Locker) waitAny(ctx context.Context, t terms, slots []string) (Grant, error) {
	waiting, leave := context.WithCancel(ctx)
	offers := make(chan offer, len(slots))
	for _, slot := range slots {
		go func() {
			grant, err := l.obtain(waiting, t, slot, false)
			offers <- offer{grant, err}
		}()
	}
	var errs []error
	for range slots {
		o := <-offers
		if o.err == nil {
			leave()
			go l.passOn(ctx, t, offers, len(slots)-len(errs)-1)
			return o.grant, nil
		}
		errs = append(errs, o.err)
	}
	leave()
	return Grant{}, errors.Join(errs...)
}

// passOn gives back what was granted besides.
func (l *Locker) passOn(ctx context.Context, t terms, offers <-chan offer, left int) {
	for range left {
		if o := <-offers; o.err == nil {
			l.abandon(ctx, t, o.grant.Token.Resource, o.grant.Token.Holder)
		}
	}
}
