package cost_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/bench/cost"
)

// It is not parallel: what others allocate is counted too.
func TestAllocationsAreCounted(t *testing.T) {
	const n = 10_000
	cost, err := cost.Allocated(t.Context(), n, func() error {
		for range n {
			_ = cost.One(t.Context(), 0)
			_ = cost.One(t.Context(), 0)
		}
		return nil
	})
	require.NoError(t, err)
	require.InDelta(t, 2, cost, 0.1)
}

func TestElapsedIsTheShareOfABlock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cost, err := cost.Elapsed(t.Context(), 4, func() error { time.Sleep(10 * time.Nanosecond); return nil })
		require.NoError(t, err)
		require.Equal(t, 2.5, cost)
	})
}

func TestCountedIsTheShareOfABlock(t *testing.T) {
	t.Parallel()
	count := int64(7)
	cost, err := cost.Counted(func() int64 { return count })(t.Context(), 2, func() error { count += 5; return nil })
	require.NoError(t, err)
	require.Equal(t, 2.5, cost)
}

func TestABlockThatFailsCostsNothing(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection refused")
	fails := func() error { return broken }
	for name, cost := range map[string]func(context.Context, int, func() error) (float64, error){
		"elapsed": cost.Elapsed, "allocated": cost.Allocated, "counted": cost.Counted(func() int64 { return 0 }),
	} {
		_, err := cost(t.Context(), 1, fails)
		require.ErrorIs(t, err, broken, name)
	}
}
