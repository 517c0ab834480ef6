package measure_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/bench/measure"
)

func lasting(d time.Duration) measure.Op {
	return func(context.Context, int) error { time.Sleep(d); return nil }
}

func TestTime(t *testing.T) {
	t.Parallel()
	stray := func(d time.Duration) measure.Op {
		n := 0
		return func(context.Context, int) error {
			if n++; n%16 == 0 { // one of each block
				time.Sleep(time.Second)
			}
			time.Sleep(d)
			return nil
		}
	}
	for name, c := range map[string]struct {
		ours    measure.Op
		workers int
		want    float64
	}{
		"of one worker":                        {lasting(1500 * time.Microsecond), 1, 1.5},
		"of one worker, without what is stray": {stray(1500 * time.Microsecond), 1, 1.5},
		"of many at once":                      {lasting(1500 * time.Microsecond), 16, 1.5},
		"of many, of whom some are late": {func(_ context.Context, worker int) error {
			time.Sleep(time.Duration(1+worker/10) * time.Millisecond)
			return nil
		}, 16, 1},
		"of many, of whom most are late": {func(_ context.Context, worker int) error {
			time.Sleep(time.Duration(1+min(worker/6, 1)) * time.Millisecond)
			return nil
		}, 16, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := row(t, measure.Figure{Plain: lasting(time.Millisecond), Ours: c.ours, Workers: c.workers})
				require.Equal(t, c.want, r.Ratio)
			})
		})
	}
}

func TestABudgetIsSharedEvenly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := measure.Figure{Plain: lasting(time.Millisecond), Ours: lasting(time.Millisecond)}
		figures := []measure.Measurement{f, f, f}
		start := time.Now()
		var ends []time.Duration
		plan := measure.Plan{Budget: 30 * time.Second}
		require.NoError(t, plan.Run(t.Context(), "group", figures, func(r measure.Row) error {
			ends = append(ends, time.Since(start))
			return nil
		}))
		// The last round of each may begin just before its end.
		const round = 64 * time.Millisecond
		for i, end := range ends {
			due := time.Duration(i+1) * 10 * time.Second
			require.GreaterOrEqual(t, end, due)
			require.LessOrEqual(t, end, due+round)
		}
		require.Len(t, ends, 3)
	})
}
