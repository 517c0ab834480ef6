package simulations_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/token"
)

// inFakeTime tells a story once with each issuer, each time in a bubble of its
// own.
func inFakeTime(t *testing.T, tell func(t *testing.T, issuer func() token.Issuer)) {
	for name, issuer := range map[string]func(*testing.T) func() token.Issuer{"memory": inMemory, "Redis": onRedis} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { tell(t, issuer(t)) })
		})
	}
}

// hazard G3
func TestInFakeTimeAPauseIsSurvived(t *testing.T) {
	t.Parallel()
	pause := func(t *testing.T, ctx context.Context, issuer func() token.Issuer) (*purse, error) {
		p := newPurse()
		a := newProcess("A", issuer(), p.Recorder, 1)
		first := &token.Locker{Issuer: a, Claim: p.claim("A")} // for 10 s
		lease, err := first.Acquire(ctx, resource)
		require.NoError(t, err)
		seen := p.read()
		var others sync.WaitGroup
		others.Go(func() {
			next := &token.Locker{Issuer: issuer(), Name: "B", Claim: p.claim("B")}
			err := next.Hold(ctx, resource, func(ctx context.Context) error { return p.add(ctx, "B", p.read()) })
			require.NoError(t, err)
		})
		a.freeze(time.Minute)
		others.Wait()
		require.ErrorIs(t, context.Cause(lease.Context()), token.ErrLost)
		err = p.add(lease.Context(), "A", seen)
		require.ErrorIs(t, lease.Release(ctx), token.ErrLost)
		return p, err
	}
	t.Run("the late write is refused", func(t *testing.T) {
		t.Parallel()
		inFakeTime(t, func(t *testing.T, issuer func() token.Issuer) {
			p, err := pause(t, t.Context(), issuer)
			require.ErrorIs(t, err, guard.ErrStale)
			require.Zero(t, p.lost())
		})
	})
	t.Run("observe-only, a unit is lost", func(t *testing.T) {
		t.Parallel()
		inFakeTime(t, func(t *testing.T, issuer func() token.Issuer) {
			p, err := pause(t, point.Observe(t.Context()), issuer)
			require.NoError(t, err)
			require.Equal(t, 1, p.lost())
		})
	})
}
