package simulations_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
)

func TestInFakeTimeALeaseIsRenewedForAnHour(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *testing.T, issuer func() token.Issuer) {
		locker := &token.Locker{Issuer: newProcess("A", issuer(), history.NewRecorder(), 1)}
		began := time.Now()
		require.NoError(t, locker.Hold(t.Context(), resource, func(ctx context.Context) error {
			time.Sleep(time.Hour)
			require.ErrorIs(t, (&token.Locker{Issuer: issuer()}).TryHold(t.Context(), resource, nil), token.ErrHeld)
			return context.Cause(ctx)
		}))
		require.Less(t, time.Since(began), time.Hour+time.Second)
	})
}

// hazard L12
func TestInFakeTimeAHungJobLosesItsLeaseAtAtMost(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *testing.T, issuer func() token.Issuer) {
		locker := &token.Locker{Issuer: issuer(), AtMost: time.Hour}
		began := time.Now()
		err := locker.Hold(t.Context(), resource, func(ctx context.Context) error {
			<-ctx.Done()
			require.Equal(t, time.Hour, time.Since(began), "to the nanosecond")
			return nil
		})
		require.ErrorIs(t, err, token.ErrLost)
	})
}

// Twenty wait for the end of a lease whose holder is no more. hazard L7
func TestInFakeTimeAHerdOfWaitersGetsThroughOneByOne(t *testing.T) {
	t.Parallel()
	const herd = 20
	inFakeTime(t, func(t *testing.T, issuer func() token.Issuer) {
		p := newPurse()
		_, err := issuer().Acquire(t.Context(), resource, "dead", 10*time.Second)
		require.NoError(t, err)
		var waiters sync.WaitGroup
		for range herd {
			locker := &token.Locker{Issuer: issuer(), Claim: p.claim("waiter")}
			waiters.Go(func() {
				require.NoError(t, locker.Hold(t.Context(), resource, func(ctx context.Context) error {
					seen := p.read()
					time.Sleep(10 * time.Millisecond)
					return p.add(ctx, "waiter", seen)
				}))
			})
		}
		waiters.Wait()
		require.Equal(t, herd, p.read())
		require.Zero(t, p.lost())
		require.GreaterOrEqual(t, p.Now(), 10*time.Second)
	})
}
