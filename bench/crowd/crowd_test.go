package crowd_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/bench/crowd"
	"github.com/fencepost/fencepost/bench/measure"
)

// late is a lock that takes so long to pass on.
func late(inner crowd.Lock, by time.Duration) crowd.Lock {
	return func(ctx context.Context, waiter int) (func(context.Context) error, error) {
		unlock, err := inner(ctx, waiter)
		time.Sleep(by)
		return unlock, err
	}
}

// want has eight want it for a second of the bubble, each for 1 ms.
func want(t *testing.T, think time.Duration, lock crowd.Lock) measure.Reading {
	t.Helper()
	r, err := crowd.Crowd{Waiters: 8, Hold: time.Millisecond, Think: think, Lock: lock}.Run(t.Context(), time.Second)
	require.NoError(t, err)
	return r
}

func TestWhatACrowdReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := want(t, 3*time.Millisecond, late(crowd.Channel(), time.Millisecond/4))
		require.InDelta(t, 250e-6, r[crowd.HandOverP50], 1e-6)
		require.InDelta(t, 250e-6, r[crowd.HandOverP99], 1e-6)
		require.InDelta(t, 6e-3, r[crowd.WaitP99], 1e-4, "a turn of eight, less its own hold and what it did between")
		require.InDelta(t, 800, r[crowd.Rate], 1)
		require.InDelta(t, 800, r[measure.Operations], 1)
		require.Greater(t, r[crowd.Fairness], 0.999)
		require.Zero(t, r[crowd.Sent])
	})
}

func TestACrowdThatOneHasAloneIsUnfair(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		unlock := func(context.Context) error { return nil }
		r := want(t, 3*time.Millisecond, func(ctx context.Context, waiter int) (func(context.Context) error, error) {
			if waiter == 0 {
				return unlock, nil
			}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		require.Equal(t, 1.0/8, r[crowd.Fairness])
		require.Equal(t, 1.0, r[crowd.HandOverP50], "as long as the block: nobody was handed anything")
		require.InDelta(t, 1.25, r[crowd.WaitP99], 1e-3, "cut off")
	})
}

func TestWhatIsSentIsCountedForEachAcquisition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		inner := crowd.Channel()
		r, err := crowd.Crowd{
			Waiters: 1, Hold: time.Millisecond, Sent: sent.Load,
			Lock: func(ctx context.Context, waiter int) (func(context.Context) error, error) {
				sent.Add(2)
				return inner(ctx, waiter)
			},
		}.Run(t.Context(), time.Second)
		require.NoError(t, err)
		require.InDelta(t, 2, r[crowd.Sent], 0.01)
	})
}

func TestALockThatIsNoneIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("connection refused")
		unlock := func(context.Context) error { return nil }
		for want, lock := range map[string]crowd.Lock{
			"two have it at once": func(context.Context, int) (func(context.Context) error, error) { return unlock, nil },
			"connection refused":  func(context.Context, int) (func(context.Context) error, error) { return nil, broken },
			"not released": late(func(context.Context, int) (func(context.Context) error, error) {
				return func(context.Context) error { return errors.New("not released") }, nil
			}, time.Microsecond),
			"nobody had it: the block is too short": func(ctx context.Context, _ int) (func(context.Context) error, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
		} {
			waiters := 2
			if want == "not released" {
				waiters = 1
			}
			_, err := crowd.Crowd{Waiters: waiters, Hold: time.Millisecond, Lock: lock}.Run(t.Context(), time.Second)
			require.ErrorContains(t, err, want)
		}
	})
}

func TestARoundTripIsAMedian(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		ask := crowd.Ask(time.Millisecond, func(context.Context) error {
			if asked++; asked%3 == 0 {
				time.Sleep(time.Second)
			}
			time.Sleep(time.Millisecond)
			return nil
		})
		r, err := ask(t.Context(), time.Millisecond)
		require.NoError(t, err)
		require.Equal(t, 1e-3, r[crowd.RoundTrip])
		require.Equal(t, 50.0, r[measure.Operations])
	})
}
