package simulations_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// hasty lets locks expire before it has said they would.
type hasty struct{ token.Issuer }

func (h hasty) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	return h.Issuer.Acquire(ctx, resource, holder, ttl/2)
}

// careless releases the resource whoever asks. hazard R7
type careless struct {
	token.Issuer
	last *atomic.Pointer[token.Token]
}

func (c careless) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	grant, err := c.Issuer.Acquire(ctx, resource, holder, ttl)
	if err == nil {
		c.last.Store(&grant.Token)
	}
	return grant, err
}

func (c careless) Release(ctx context.Context, _ token.Token) error {
	return c.Issuer.Release(ctx, *c.last.Load())
}

// backwards mints numbers that fall.
type backwards struct {
	token.Issuer
	next *atomic.Int64
}

func (b backwards) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	grant, err := b.Issuer.Acquire(ctx, resource, holder, ttl)
	grant.Token.Number = 1000 + b.next.Add(-1)
	return grant, err
}

func TestInFakeTimeBrokenIssuersAreCaught(t *testing.T) {
	t.Parallel()
	for rule, mutant := range map[string]func(token.Issuer) token.Issuer{
		"alone":   func(iss token.Issuer) token.Issuer { return hasty{iss} },
		"owner":   func(iss token.Issuer) token.Issuer { return careless{iss, new(atomic.Pointer[token.Token])} },
		"numbers": func(iss token.Issuer) token.Issuer { return backwards{iss, new(atomic.Int64)} },
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			issuer := func(*testing.T) func() token.Issuer {
				broken := mutant(new(memtoken.Issuer))
				return func() token.Issuer { return broken }
			}
			for seed := range uint64(100) {
				err := crowd{seed: seed, names: "ABC", rounds: 4, issuer: issuer}.fight(t).judge()
				if err != nil {
					require.ErrorContains(t, err, rule+": ")
					return
				}
			}
			require.Fail(t, "not caught")
		})
	}
}
