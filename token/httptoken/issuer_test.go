package httptoken_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/httptoken"
	"github.com/fencepost/fencepost/token/memtoken"
	"github.com/fencepost/fencepost/token/tokentest"
)

func TestIssuer(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	for name, iss := range map[string]token.Issuer{"memory": new(memtoken.Issuer), "redis": redisIssuer(t, client, prefix)} {
		b := newBalancer(t)
		b.serve(t, &httptoken.Handler{Issuer: iss})
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tokentest.TestIssuer(t, func(*testing.T) token.Issuer { return b.client() })
		})
	}
}

// The queue of pgtoken has a place for each waiter; that of redistoken has one for each
// replica.
func TestIssuerOverReplicas(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	b := newBalancer(t)
	for range 2 {
		b.serve(t, &httptoken.Handler{Issuer: postgresIssuer(t, pool, schema)})
	}
	tokentest.TestIssuer(t, func(*testing.T) token.Issuer { return b.client() })
}

// handing is an issuer that hands over for a third of the ttl, as those on servers do.
type handing struct{ *memtoken.Issuer }

func (h handing) Wait(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	return h.Issuer.Wait(ctx, resource, holder, ttl/3)
}

// The lease began when the wait ended, so the client counts from a renewal.
func TestALeaseAfterAWaitIsRenewed(t *testing.T) {
	t.Parallel()
	locks := handing{new(memtoken.Issuer)}
	b := newBalancer(t)
	b.serve(t, &httptoken.Handler{Issuer: locks})
	other, err := locks.Acquire(t.Context(), "job/report", "other", time.Hour)
	require.NoError(t, err)
	type result struct {
		grant token.Grant
		err   error
	}
	waited := make(chan result, 1)
	go func() {
		grant, err := b.client().Wait(t.Context(), "job/report", "a", time.Hour)
		waited <- result{grant, err}
	}()
	require.Eventually(t, func() bool {
		s, err := b.client().Inspect(t.Context(), "job/report")
		return err == nil && len(s.Waiters) == 1 && s.Waiters[0] == "a"
	}, time.Minute, time.Millisecond)
	require.NoError(t, locks.Release(t.Context(), other.Token))
	r := <-waited
	require.NoError(t, r.err)
	require.Greater(t, time.Until(r.grant.Until), 45*time.Minute)
}
