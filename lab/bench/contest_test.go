package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// lasting is a subject whose calls take the given durations, one after the other. The
// last duration is repeated.
func lasting(name string, durations ...time.Duration) subject {
	var calls atomic.Int64
	return subject{name: name, open: func(context.Context, *client) op {
		return func(context.Context, int) error {
			time.Sleep(durations[min(int(calls.Add(1)), len(durations))-1])
			return nil
		}
	}}
}

var brief = pace{block: 10 * time.Millisecond}

func TestARatioIsToTheBlocksOfTheBaselineAroundIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		ours := lasting("ours", 9*ms, 3*ms) // the first call is the warm-up
		ours.targets = targets{overLoopback: {atMost(1.4)}}
		// Each operation is a block: the warm-up, and then two in each of three rounds.
		plain := lasting("plain", 9*ms, 1*ms, 3*ms, 1*ms, 3*ms, 1*ms, 3*ms)
		c := contest{name: "sleep, ", baseline: plain, others: []subject{ours}, settings: []setting{direct1}}
		rows, err := c.measure(t.Context(), &env{pace: pace{block: time.Nanosecond}})
		require.NoError(t, err)
		require.Len(t, rows, 2)
		require.Equal(t, "sleep, a/a", rows[0].name)
		require.Equal(t, []value{{median: 3, q1: 3, q3: 3, noise: true}}, rows[0].cells[overLoopback])
		require.Equal(t, "sleep, ours", rows[1].name)
		require.Equal(t, "plain", rows[1].baseline)
		require.Equal(t, []value{{median: 1.5, q1: 1.5, q3: 1.5, target: atMost(1.4)}}, rows[1].cells[overLoopback])
		require.Empty(t, rows[1].cells[serverCPU], "no server was named")
	})
}

func TestThroughputIsOfAllClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var clients sync.Map
		twice := subject{name: "twice as fast", open: func(_ context.Context, c *client) op {
			clients.Store(c, c.workers)
			return func(context.Context, int) error { time.Sleep(time.Millisecond); return nil }
		}}
		c := contest{baseline: lasting("plain", 2*time.Millisecond), others: []subject{twice}, settings: []setting{saturate, saturate4}}
		rows, err := c.measure(t.Context(), &env{pace: brief})
		require.NoError(t, err)
		require.Len(t, rows[1].cells[throughput], 2)
		for _, v := range rows[1].cells[throughput] {
			require.InDelta(t, 2, v.median, 0.1)
		}
		opened := 0
		clients.Range(func(_, workers any) bool { opened++; return workers == 1 })
		require.Equal(t, saturate.clients+saturate4.clients, opened)
	})
}

func TestTheSidesTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		order := ""
		note := func(name string) subject {
			return subject{name: name, open: func(context.Context, *client) op {
				return func(context.Context, int) error { order += name; time.Sleep(time.Millisecond); return nil }
			}}
		}
		c := contest{baseline: note("r"), others: []subject{note("a"), note("b")}, settings: []setting{linked1}}
		_, err := c.measure(t.Context(), &env{pace: pace{block: time.Nanosecond}})
		require.NoError(t, err)
		require.Equal(t, "rab"+"rabr"+"rbar"+"rabr", order)
	})
}

func TestABudgetIsSpent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := contest{baseline: lasting("plain", time.Millisecond), settings: []setting{direct1}}
		_, err := c.measure(t.Context(), &env{pace: pace{block: 10 * time.Millisecond, budget: time.Second}})
		require.NoError(t, err)
		require.InDelta(t, 1, time.Since(start).Seconds(), 0.05)
	})
}

func TestAnOperationThatFailsEndsTheContest(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection refused")
	var closed atomic.Int64
	failing := subject{name: "ours", open: func(_ context.Context, c *client) op {
		c.later(func() error { closed.Add(1); return nil })
		return func(ctx context.Context, worker int) error {
			if worker == 3 {
				return broken
			}
			<-ctx.Done() // the first error ends the other workers
			return context.Cause(ctx)
		}
	}}
	c := contest{name: "write, ", baseline: lasting("plain", 0), others: []subject{failing}, settings: []setting{direct16}}
	_, err := c.measure(t.Context(), &env{pace: brief})
	require.ErrorIs(t, err, broken)
	require.EqualError(t, err, "write, ours: connection refused")
	require.EqualValues(t, 1, closed.Load())

	unopened := subject{name: "ours", open: func(_ context.Context, c *client) op {
		c.later(func() error { closed.Add(1); return nil })
		return must[op](nil, broken)
	}}
	c.others = []subject{unopened}
	_, err = c.measure(t.Context(), &env{pace: brief})
	require.EqualError(t, err, "write, prepare ours: connection refused")
	require.EqualValues(t, 2, closed.Load())
}

func TestABaselineOfZeroIsAnError(t *testing.T) {
	t.Parallel()
	r := roundOf{sides: []reading{{}, {cpu: 1}}}
	_, err := r.value(1, quantity{serverCPU, func(r reading) float64 { return r.cpu }, false})
	require.ErrorContains(t, err, "no ratio")
}

func TestACountIsThatOfTheSide(t *testing.T) {
	t.Parallel()
	r := roundOf{sides: []reading{{packets: 2}, {packets: 3}}, again: reading{packets: 2}}
	v, err := r.value(1, quantity{packets, func(r reading) float64 { return r.packets }, true})
	require.NoError(t, err)
	require.Equal(t, 3.0, v)
}
