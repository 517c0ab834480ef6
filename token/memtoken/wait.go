package memtoken

import (
	"context"
	"errors"
	"time"

	"github.com/fencepost/fencepost/internal/lock"
	"github.com/fencepost/fencepost/token"
)

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
	served := make(chan answer, 1)
	w := &lock.Waiter{Holder: holder, TTL: ttl, Served: func(g token.Grant, err error) { served <- answer{g, err} }}
	i.decide(resource, func(l *watched, now time.Time) { l.Join(w, now) })
	select {
	case a := <-served:
		return a.grant, a.err
	case <-ctx.Done():
		i.decide(resource, func(l *watched, now time.Time) { l.Leave(w, now) })
		return token.Grant{}, errors.Join(context.Cause(ctx), held)
	}
}
