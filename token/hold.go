package token

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Hold waits for resource, runs fn with a context that carries the token, and
// gives the resource back. The context ends, with cause [ErrLost], before the
// resource can pass to somebody else.
//
// Under a context of a live lease of the same resource and issuer, fn runs
// with that lease's token: nothing is acquired, and nothing is released after
// it. What fn gets still ends with the lease, also where ctx had been detached
// from it by [context.WithoutCancel]. Under one that carries a token of
// resource from elsewhere, the error is [ErrForeign].
//
// The error is fn's own, joined with what else happened, each to be found by
// errors.Is: [ErrLost], the lease ended while fn ran, even when fn returned
// nil (what it wrote through a guard stands; what it did besides may have met
// a successor); [ErrUnreleased], the work is done but the resource stays held
// until its ttl ends. Where fn did not run it is one of [ErrWaitEnded] and
// [ErrHeld], the context's cause, the claim's error, or the issuer's. A panic
// in fn releases and goes on.
func (l *Locker) Hold(ctx context.Context, resource string, fn func(ctx context.Context) error) error {
	return l.hold(ctx, resource, false, fn)
}

// TryHold is Hold without waiting: where somebody else holds the resource the
// error is [ErrHeld], at once.
func (l *Locker) TryHold(ctx context.Context, resource string, fn func(ctx context.Context) error) error {
	return l.hold(ctx, resource, true, fn)
}

// HoldAll is Hold for several resources, acquired in bytewise order whatever
// the order given, so that two callers who hold nothing yet never wait for
// each other. Where ctx already holds a lease, what is acquired now comes
// after it in no order: two such callers can wait for each other, and only
// Wait bounds it. The context carries all their tokens and ends with the first
// lease that is lost. A name given twice counts once; no names at all are an
// error.
func (l *Locker) HoldAll(ctx context.Context, resources []string, fn func(ctx context.Context) error) error {
	sorted, err := names(resources)
	if err != nil {
		return err
	}
	return l.holdSorted(ctx, sorted, fn)
}

// names are valid, sorted bytewise, each of them once.
func names(resources []string) ([]string, error) {
	if len(resources) == 0 {
		return nil, CheckResource("")
	}
	sorted := slices.Clone(resources)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	for _, resource := range sorted {
		if err := CheckResource(resource); err != nil {
			return nil, err
		}
	}
	return sorted, nil
}

func (l *Locker) holdSorted(ctx context.Context, resources []string, fn func(ctx context.Context) error) error {
	if len(resources) == 0 {
		return fn(ctx)
	}
	return l.Hold(ctx, resources[0], func(ctx context.Context) error {
		return l.holdSorted(ctx, resources[1:], fn)
	})
}

func (l *Locker) hold(ctx context.Context, resource string, try bool, fn func(ctx context.Context) error) (err error) {
	held, err := l.acquire(ctx, resource, try)
	if err != nil {
		return err
	}
	defer func() { err = held.end(ctx, err, held.atLeast) }()
	return fn(held.Context())
}

// end releases the lease and joins what became of it to the work's error,
// which stays as it is where nothing happened besides. That a lost lease could
// not be released says nothing new. Of a re-entry the outer frame does all this.
func (l *Lease) end(ctx context.Context, err error, atLeast time.Duration) error {
	lost := context.Cause(l.ctx)
	var released error
	if l.leave != nil {
		l.leave()
	} else {
		err = l.heal(ctx, err) // first: the release may mint the successor's number
		released = l.giveBack(ctx, atLeast)
	}
	if errors.Is(lost, ErrLost) && !errors.Is(err, lost) {
		err = errors.Join(err, lost)
	}
	if released == nil || errors.Is(released, ErrLost) && errors.Is(err, ErrLost) {
		return err
	}
	return errors.Join(err, released)
}
