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
	i.join(resource, w)
	select {
	case a := <-w.served:
		return a.grant, a.err
	case <-ctx.Done():
		i.leave(resource, w)
		return token.Grant{}, errors.Join(context.Cause(ctx), held)
	}
}

// join goes to the end of the line.
func (i *Issuer) join(resource string, w *waiter) {
	i.mu.Lock()
	defer i.mu.Unlock()
	l := i.lock(resource)
	l.line = append(l.line, w)
	i.serve(l)
}

// serve serves the line, and comes by again when the holder's time has passed:
// nobody else may by then.
func (i *Issuer) serve(l *lock) {
	now := time.Now()
	l.serve(now)
	l.watch(now, func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.serve(l)
	})
}

// leave passes on what was granted just now.
func (i *Issuer) leave(resource string, w *waiter) {
	i.mu.Lock()
	defer i.mu.Unlock()
	l := i.lock(resource)
	if place := slices.Index(l.line, w); place >= 0 {
		l.line = slices.Delete(l.line, place, place+1)
	} else if l.isHeldBy(w.holder, time.Now()) {
		l.grant.Until = time.Time{}
	}
	i.serve(l)
}
