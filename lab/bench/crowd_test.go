package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

type waiting = func(ctx context.Context, waiter int) (unlock, error)

// late delays the hand-over of a lock.
func late(inner waiting, by time.Duration) waiting {
	return func(ctx context.Context, waiter int) (unlock, error) {
		release, err := inner(ctx, waiter)
		time.Sleep(by)
		return release, err
	}
}

func free(context.Context) error { return nil }

func TestTheFiguresOfACrowd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		inner := late(channel(), time.Millisecond/4)
		r, err := crowd{
			waiters: 8, hold: time.Millisecond, think: 3 * time.Millisecond, sent: sent.Load,
			lock: func(ctx context.Context, waiter int) (unlock, error) { sent.Add(2); return inner(ctx, waiter) },
		}.run(t.Context(), time.Second)
		require.NoError(t, err)
		require.InDelta(t, 250e-6, r.handOver, 1e-6)
		require.InDelta(t, 6e-3, r.wait, 1e-4, "one turn of eight waiters, less its own hold and work")
		require.Greater(t, r.fairness, 0.999)
		require.InDelta(t, 2, r.sent, 0.02)
	})
}

func TestALockThatOneWaiterHasAloneIsUnfair(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, err := crowd{waiters: 8, hold: time.Millisecond, think: 3 * time.Millisecond, lock: func(ctx context.Context, waiter int) (unlock, error) {
			if waiter == 0 {
				return free, nil
			}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}.run(t.Context(), time.Second)
		require.NoError(t, err)
		require.Equal(t, 1.0/8, r.fairness)
		require.Equal(t, 1.0, r.handOver, "there was no hand-over, so the block's length")
		require.InDelta(t, 1.25, r.wait, 1e-3, "cut off")
	})
}

func TestABlockWithoutAnAcquisitionIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := crowd{waiters: 1, hold: time.Millisecond, lock: func(ctx context.Context, _ int) (unlock, error) {
			select {
			case <-time.After(2 * time.Second):
				return free, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}.run(t.Context(), time.Second)
		require.NoError(t, err)
		require.Equal(t, 1250*time.Millisecond+2500*time.Millisecond, time.Since(start))
	})
}

// A library may end its lock at the deadline of the caller's context, by a clock that is
// coarser than the context's.
func TestAWaitersContextHasNoDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := crowd{waiters: 1, hold: time.Millisecond, lock: func(ctx context.Context, _ int) (unlock, error) {
			_, has := ctx.Deadline()
			require.False(t, has)
			return free, nil
		}}.run(t.Context(), time.Second)
		require.NoError(t, err)
		require.Equal(t, 1250*time.Millisecond, time.Since(start).Truncate(10*time.Millisecond))
	})
}

func TestALockThatIsNoneIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for want, c := range map[string]crowd{
			"two waiters hold it at the same time": {waiters: 2, lock: func(context.Context, int) (unlock, error) { return free, nil }},
			"connection refused":                   {waiters: 2, lock: func(context.Context, int) (unlock, error) { return nil, errors.New("connection refused") }},
			"not released": {waiters: 1, lock: late(func(context.Context, int) (unlock, error) {
				return func(context.Context) error { return errors.New("not released") }, nil
			}, time.Microsecond)},
		} {
			c.hold = time.Millisecond
			_, err := c.run(t.Context(), time.Second)
			require.ErrorContains(t, err, want)
		}
	})
}

func TestARoundTripIsAMedian(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		took, err := roundTrip(t.Context(), time.Millisecond, time.Millisecond, func(context.Context) error {
			if requests++; requests%3 == 0 {
				time.Sleep(time.Second)
			}
			time.Sleep(time.Millisecond)
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, 1e-3, took)
		require.Equal(t, 50, requests)
	})
}
