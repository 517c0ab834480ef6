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

// competed returns the reading of eight waiters of one lock in simulated time. A lock may
// use the channel, in which one value fits.
func competed(t *testing.T, lock func(ctx context.Context, c *client, free chan struct{}) (unlock, error)) (read reading, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{}, 1)
		c := &client{setting: setting{workers: 8, clients: 1}, server: newEnv(true).started(t.Context(), noServer)}
		read, err = crowd(func(_ context.Context, c *client) acquire {
			return func(ctx context.Context, _ string, _ bool) (unlock, error) {
				_, has := ctx.Deadline()
				require.False(t, has, "a library may end its lock at the deadline, by a coarser clock")
				return lock(ctx, c, free)
			}
		}, false)(t.Context(), c)(t.Context(), time.Second)
	})
	return read, err
}

func TestTheFiguresOfACrowd(t *testing.T) {
	t.Parallel()
	read, err := competed(t, func(ctx context.Context, c *client, free chan struct{}) (unlock, error) {
		c.sent.Add(2)
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		time.Sleep(time.Millisecond / 4)
		return func(context.Context) error { <-free; return nil }, nil
	})
	require.NoError(t, err)
	require.InDelta(t, 250, read[handOver], 1)
	require.Greater(t, read[fairness], 0.999)
	require.InDelta(t, 2, read[packets], 0.02)
}

func TestALockThatOneWaiterHasAloneIsUnfair(t *testing.T) {
	t.Parallel()
	var taken atomic.Bool
	read, err := competed(t, func(ctx context.Context, _ *client, _ chan struct{}) (unlock, error) {
		if taken.CompareAndSwap(false, true) {
			return func(context.Context) error { taken.Store(false); return nil }, nil
		}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	require.NoError(t, err)
	require.Equal(t, 1.0/8, read[fairness])
	require.Equal(t, 1e6, read[handOver], "there was no hand-over, so the block's length")
}

func TestOneAcquisitionIsCountedHoweverLate(t *testing.T) {
	t.Parallel()
	read, err := competed(t, func(ctx context.Context, _ *client, free chan struct{}) (unlock, error) {
		select {
		case free <- struct{}{}:
			time.Sleep(2 * time.Second)
			return func(context.Context) error { <-free; return nil }, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	require.NoError(t, err)
	require.Equal(t, 1.0/8, read[fairness])
	require.InDelta(t, 2e6, read[handOver], 1)
}

func TestALockThatIsNoneIsAnError(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection refused")
	_, err := competed(t, func(context.Context, *client, chan struct{}) (unlock, error) {
		return func(context.Context) error { return nil }, nil
	})
	require.ErrorContains(t, err, "two waiters hold it at the same time")
	_, err = competed(t, func(context.Context, *client, chan struct{}) (unlock, error) { return nil, refused })
	require.ErrorIs(t, err, refused)
}
