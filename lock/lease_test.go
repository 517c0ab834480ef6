package lock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

func TestALeaseIsReleasedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		held, err := (&lock.Locker{Issuer: &w, DangerouslyWithoutClaim: true}).Acquire(t.Context(), account)
		require.NoError(t, err)
		require.Equal(t, held.Token(), fromContext(t, held.Context(), account))
		w.release.set(fails)
		first := held.Release(t.Context())
		require.ErrorIs(t, first, lock.ErrNotReleased)
		require.ErrorIs(t, first, errCut)
		require.ErrorIs(t, context.Cause(held.Context()), token.ErrReleased)
		w.release.set(works)
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { require.Equal(t, first, held.Release(t.Context())) })
		}
		wg.Wait()
		require.EqualValues(t, 1, w.release.calls.Load())
	})
}

func TestALeaseFollowsItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		ctx, cancel := context.WithCancelCause(t.Context())
		held, err := (&lock.Locker{Issuer: &w, TTL: ttl, DangerouslyWithoutClaim: true}).Acquire(ctx, account)
		require.NoError(t, err)
		cancel(errWork)
		<-held.Context().Done()
		require.ErrorIs(t, context.Cause(held.Context()), errWork)
		require.NotErrorIs(t, context.Cause(held.Context()), token.ErrLost)
		require.NoError(t, held.Release(ctx))
	})
}

// registry is the twin of a context that carries its token: it returns the current token
// of a resource to every caller.
type registry struct {
	token.Issuer
	current sync.Map
}

func (r *registry) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	grant, err := r.Issuer.Acquire(ctx, resource, holder, ttl)
	if err == nil {
		r.current.Store(resource, grant.Token)
	}
	return grant, err
}

// hazard L2
func TestAZombieKeepsTheNumberItFellAsleepWith(t *testing.T) {
	bubble(t, func(t *testing.T) {
		iss := registry{Issuer: new(memtoken.Issuer)}
		var marks guard.Memory
		locker := lock.Locker{Issuer: &iss, TTL: ttl, DangerouslyWithoutClaim: true}
		zombie, err := locker.Acquire(t.Context(), account)
		require.NoError(t, err)
		before := fromContext(t, zombie.Context(), account)
		require.NoError(t, iss.Release(t.Context(), before)) // as an operator may free it
		successor, err := locker.Acquire(t.Context(), account)
		require.NoError(t, err)
		require.NoError(t, marks.Admit(t.Context(), successor.Token()))
		<-zombie.Context().Done()

		after := fromContext(t, zombie.Context(), account)
		require.Equal(t, before, after)
		require.Equal(t, before, zombie.Token())
		require.ErrorIs(t, marks.Admit(t.Context(), after), guard.ErrStale)

		// The twin reads the current token when it writes: it gets its successor's.
		current, _ := iss.current.Load(account)
		require.NoError(t, marks.Admit(t.Context(), current.(token.Token)))
		require.NoError(t, successor.Release(t.Context()))
	})
}

// hazard L5
func TestAReleaseUnderACancelledContextReachesTheIssuer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var iss memtoken.Issuer
		locker := lock.Locker{Issuer: &iss, TTL: time.Hour, DangerouslyWithoutClaim: true}
		ctx, cancel := context.WithCancel(t.Context())
		require.ErrorIs(t, locker.Hold(ctx, account, func(ctx context.Context) error {
			cancel()
			return ctx.Err()
		}), context.Canceled)
		require.NoError(t, noWait(&locker).Hold(t.Context(), account, func(context.Context) error { return nil }))

		// The twin releases under the context that it worked under.
		grant, err := iss.Acquire(t.Context(), account, "twin", time.Hour)
		require.NoError(t, err)
		require.ErrorIs(t, iss.Release(ctx, grant.Token), context.Canceled)
		require.ErrorIs(t, noWait(&locker).Hold(t.Context(), account, nil), token.ErrHeld)
	})
}
