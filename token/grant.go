package token

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencepost/fencepost/internal/tenure"
)

// goodbye bounds the release of what may have been granted to a caller that is
// already leaving.
const goodbye = time.Second

// grant is obtain, and tells the observer where it got none.
func (l *Locker) grant(ctx context.Context, t terms, resource string, try bool) (Grant, error) {
	asked := time.Now()
	grant, err := l.obtain(ctx, t, resource, try)
	if err != nil {
		l.Observer.gaveUp(ctx, resource, time.Since(asked), err)
	}
	return grant, err
}

// obtain waits in the issuer's line where it has one, and else asks until it
// grants.
func (l *Locker) obtain(ctx context.Context, t terms, resource string, try bool) (Grant, error) {
	waiting, cancel := waitContext(ctx, t.wait)
	defer cancel()
	if line, ok := l.Issuer.(Waiter); ok && !try {
		return l.whole(waiting, t, line, resource)
	}
	return l.ask(ctx, waiting, t, resource, try)
}

// whole renews at once what was handed over for less than the margin.
func (l *Locker) whole(waiting context.Context, t terms, line Waiter, resource string) (Grant, error) {
	grant, err := stand(waiting, line, t, resource)
	if err == nil && tenure.TooLate(time.Until(grant.Until), t.margin) {
		if until, err := l.Issuer.Renew(waiting, grant.Token, t.ttl); err == nil {
			grant.Until = until
		}
	}
	return grant, err
}

func stand(waiting context.Context, line Waiter, t terms, resource string) (Grant, error) {
	grant, err := line.Wait(waiting, resource, newHolder(t.name), t.ttl)
	switch {
	case err == nil:
		return grant, nil
	case waiting.Err() != nil:
		var held *HeldError
		errors.As(err, &held)
		return Grant{}, waitError(waiting, held, err)
	}
	return Grant{}, fmt.Errorf("token: acquire %s: %w", resource, err)
}

// ask asks until the issuer grants. The holder stays the same throughout, so
// that a grant whose reply was lost is found again by the next question.
func (l *Locker) ask(ctx, waiting context.Context, t terms, resource string, try bool) (Grant, error) {
	holder := newHolder(t.name)
	var held *HeldError
	if waiting.Err() != nil {
		return Grant{}, context.Cause(waiting) // nothing was asked, and nothing is to be given back
	}
	for pause := tenure.FirstPause; ; pause = min(2*pause, tenure.LongestPause) {
		grant, err := l.Issuer.Acquire(waiting, resource, holder, t.ttl)
		switch {
		case err == nil:
			return grant, nil
		case waiting.Err() != nil:
			l.abandon(ctx, t, resource, holder)
			return Grant{}, waitError(waiting, held, err)
		case !errors.As(err, &held):
			l.abandon(ctx, t, resource, holder)
			return Grant{}, fmt.Errorf("token: acquire %s: %w", resource, err)
		case try:
			return Grant{}, err
		}
		if !sleep(waiting, tenure.Pause(held.Remaining, jitter(pause))) {
			return Grant{}, waitError(waiting, held, nil)
		}
	}
}

// abandon gives back what an Acquire without an answer may have been granted,
// so that others need not wait for the ttl. It is best effort: where it does
// not arrive, the ttl ends the matter.
func (l *Locker) abandon(ctx context.Context, t terms, resource, holder string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(goodbye, t.ttl))
	defer cancel()
	_ = l.Issuer.Release(ctx, Token{Resource: resource, Number: 1, Holder: holder})
}

func waitContext(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	if wait == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, wait, ErrWaitEnded)
}

// waitError says why the waiting ended and who had the resource.
func waitError(waiting context.Context, held *HeldError, err error) error {
	errs := []error{context.Cause(waiting)}
	if held != nil {
		errs = append(errs, held)
	} else if err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// sleep reports whether it slept for all of d.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
