package simulations_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/proxy"
	"github.com/fencepost/fencepost/token"
)

func TestASlowNetwork(t *testing.T) {
	t.Parallel()
	t.Run("a lease is kept while renewals are in time", func(t *testing.T) {
		t.Parallel()
		l := newLocks(t)
		a := &token.Locker{Issuer: l.a, TTL: 2 * ttl}
		require.NoError(t, a.Hold(t.Context(), resource, func(ctx context.Context) error {
			l.Delay(proxy.Both, ttl/20)
			select {
			case <-ctx.Done():
			case <-time.After(3 * ttl):
			}
			return context.Cause(ctx)
		}))
	})
	t.Run("it is lost before another has it where they are not", func(t *testing.T) {
		t.Parallel()
		l := newLocks(t)
		a := &token.Locker{Issuer: l.a, TTL: ttl, Margin: margin}
		lease, err := a.Acquire(t.Context(), resource)
		require.NoError(t, err)
		l.Delay(proxy.ToClient, ttl) // the renewals arrive, and A does not hear of it
		next, err := (&token.Locker{Issuer: l.direct, TTL: time.Minute}).Acquire(t.Context(), resource)
		require.NoError(t, err)
		require.ErrorIs(t, context.Cause(lease.Context()), token.ErrLost) // hazard L1
		l.Heal(proxy.Both)
		require.ErrorIs(t, lease.Release(t.Context()), token.ErrLost)
		require.NoError(t, next.Release(t.Context()))
	})
	t.Run("a grant that was longer on its way than it lasts is none", func(t *testing.T) {
		t.Parallel()
		l := newLocks(t)
		l.Delay(proxy.ToClient, ttl)
		a := &token.Locker{Issuer: l.a, TTL: ttl, Margin: margin}
		_, err := a.Acquire(t.Context(), resource)
		require.ErrorIs(t, err, token.ErrLost)
	})
}
