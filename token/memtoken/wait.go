package memtoken

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fencepost/fencepost/token"
)

// waiter stands in a line.
type waiter struct {
	holder string
	ttl    time.Duration
	served chan answer // holds one
}

type answer struct {
	grant token.Grant
	err   error
}

// Wait implements [token.Waiter].
func (i *Issuer) Wait(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	grant, err := i.Acquire(ctx, resource, holder, ttl)
	var held *token.HeldError
	if !errors.As(err, &held) {
		return grant, err
	}
	w := &waiter{holder: holder, ttl: ttl, served: make(chan answer, 1)}
	for left := i.join(resource, w); ; left = i.visit(resource) {
		timer := time.NewTimer(left)
		select {
		case a := <-w.served:
			timer.Stop()
			return a.grant, a.err
		case <-ctx.Done():
			timer.Stop()
			i.leave(resource, w)
			return token.Grant{}, errors.Join(context.Cause(ctx), held)
		case <-timer.C:
		}
	}
}

// join goes to the end of the line, and says when to look after it.
func (i *Issuer) join(resource string, w *waiter) time.Duration {
	i.mu.Lock()
	l := i.lock(resource)
	l.line = append(l.line, w)
	i.mu.Unlock()
	return i.visit(resource)
}

// visit serves the line where the holder's time has passed: nobody else may
// come by then. It says when the next one's has.
func (i *Issuer) visit(resource string) time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	l, now := i.lock(resource), time.Now()
	l.serve(now)
	return l.grant.Until.Sub(now)
}

// leave passes on what was granted just now.
func (i *Issuer) leave(resource string, w *waiter) {
	i.mu.Lock()
	defer i.mu.Unlock()
	l, now := i.lock(resource), time.Now()
	if place := slices.Index(l.line, w); place >= 0 {
		l.line = slices.Delete(l.line, place, place+1)
	} else if l.isHeldBy(w.holder, now) {
		l.grant.Until = time.Time{}
		l.serve(now)
	}
}
