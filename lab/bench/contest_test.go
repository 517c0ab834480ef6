package main

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// lasting is a contender that takes the given durations, the last of which is repeated:
// one for each client.
func lasting(name string, durations ...time.Duration) contender {
	var opened atomic.Int64
	return contender{name, each(func(context.Context, *client) op {
		d := durations[min(int(opened.Add(1)), len(durations))-1]
		return func(context.Context, int) error { time.Sleep(d); return nil }
	})}
}

func TestARatioIsToTheMeanOfTheBaselineAndItsTwin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		c := contest{
			name: "sleep", settings: []setting{{1, 1, direct, 12 * ms, []column{link, throughput, allocations}}},
			baseline: lasting("plain", ms, 3*ms), others: []contender{lasting("ours", 4*ms)},
		}
		start := time.Now()
		rows, err := c.measure(t.Context(), newEnv(false))
		require.NoError(t, err)
		require.InDelta(t, 8, time.Since(start).Seconds(), 0.1, "the budget")
		require.Len(t, rows, 2)
		require.Equal(t, "plain", rows[0].contender)
		require.Empty(t, rows[0].ratios)
		require.Equal(t, spread{3, 3, 3}, rows[0].aa[link])
		require.Equal(t, spread{2, 2, 2}, rows[1].ratios[link])
		require.InDelta(t, 2*250/(1000+1000/3.0), rows[1].ratios[throughput].median, 1e-9)
		require.InDelta(t, 4000, rows[1].measured[link], 1e-9)
		require.Contains(t, rows[1].measured, allocations)
		require.NotContains(t, rows[1].ratios, allocations, "it is a count")
	})
}

func TestARoundHasAllSidesInRandomOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		order := ""
		note := func(name string) contender {
			return contender{name, func(context.Context, *client) block {
				return func(_ context.Context, d time.Duration) (reading, error) {
					order += name
					time.Sleep(d)
					return reading{link: 1}, nil
				}
			}}
		}
		c := contest{baseline: note("r"), others: []contender{note("a"), note("b")}, settings: []setting{linked1}}
		_, err := c.measure(t.Context(), newEnv(false))
		require.NoError(t, err)
		rounds := slices.Collect(slices.Chunk([]byte(order), 4))
		require.Equal(t, "rabr", string(rounds[0]), "the warm-up")
		orders := map[string]bool{}
		for _, round := range rounds[1:] {
			orders[string(round)] = true
			slices.Sort(round)
			require.Equal(t, "abrr", string(round))
		}
		require.Greater(t, len(orders), 2, "of twelve, in %d rounds", len(rounds))
	})
}

func TestEachClientHasItsShareOfTheWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var opened atomic.Int64
		var did [64]atomic.Int64
		ours := contender{"ours", each(func(context.Context, *client) op {
			own := opened.Add(1) - 1
			return func(_ context.Context, worker int) error {
				time.Sleep(time.Millisecond)
				if did[worker].Add(1); int64(worker) != own {
					return errors.New("another client's worker")
				}
				return nil
			}
		})}
		c := contest{baseline: lasting("plain", time.Millisecond), others: []contender{ours}, settings: every[5:]}
		rows, err := c.measure(t.Context(), newEnv(true))
		require.NoError(t, err)
		require.EqualValues(t, 64, opened.Load())
		require.InDelta(t, 64_000, rows[1].measured[throughput], 1000)
		for worker := range did {
			require.Positive(t, did[worker].Load())
		}
	})
}

func TestAnOperationThatFailsEndsTheContest(t *testing.T) {
	t.Parallel()
	broken, closed := errors.New("connection refused"), 0
	failing := func(prepare func() op) contest {
		return contest{
			name: "write", settings: []setting{linked16}, baseline: lasting("plain", 0),
			others: []contender{{"ours", each(func(_ context.Context, c *client) op {
				c.later(func() error { closed++; return nil })
				return prepare()
			})}},
		}
	}
	_, err := failing(func() op {
		return func(ctx context.Context, worker int) error {
			if worker == 3 {
				return broken
			}
			<-ctx.Done() // the first error ends the other workers
			return context.Cause(ctx)
		}
	}).measure(t.Context(), newEnv(true))
	require.ErrorIs(t, err, broken)
	require.EqualError(t, err, "write, ours, 16 workers: connection refused")
	_, err = failing(func() op { return must[op](nil, broken) }).measure(t.Context(), newEnv(true))
	require.ErrorIs(t, err, broken)
	require.Equal(t, 2, closed)
	require.Panics(t, func() { _, _ = failing(func() op { panic("a bug") }).measure(t.Context(), newEnv(true)) })
}

func TestABaselineOfZeroIsAnError(t *testing.T) {
	t.Parallel()
	c := contest{baseline: lasting("plain", 0), settings: []setting{direct1}} // no server has a CPU
	_, err := c.measure(t.Context(), newEnv(true))
	require.ErrorContains(t, err, "no ratio")
}

var measured = []row{
	{
		contest: "lock", contender: "SET", baseline: "SET", workers: 1, ratios: map[column]spread{},
		aa:       map[column]spread{link: {0.9951, 1, 1.0049}},
		measured: reading{link: 312.5, packets: 1},
	},
	{
		contest: "lock", contender: "ours", baseline: "SET", workers: 1,
		ratios: map[column]spread{link: {1, 1.0251, 2}}, aa: map[column]spread{link: {0.9951, 1, 1.0049}},
		measured: reading{link: 320.34, packets: 0},
	},
	{
		contest: "lock", contender: "ours", baseline: "SET", workers: 16,
		ratios: map[column]spread{link: {1, 107.4, 2}}, aa: map[column]spread{}, measured: reading{link: 9},
	},
}

func TestAContestIsATable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, printMarkdown(&out, measured))
	require.Equal(t, "| lock ÷ SET | link, 1 · 16 | packets, 1 |\n|---|--:|--:|\n"+
		"| a/a | 1.00 [0.995–1.00] | 1.00 |\n| ours | 1.03 · 107 | 0.000 |\n\n", out.String())
	require.ErrorIs(t, printMarkdown(full{}, measured), errFull)
}

type full struct{}

var errFull = errors.New("disk full")

func (full) Write([]byte) (int, error) { return 0, errFull }

// The values are those of R's quantile(x, p), whose default is type 7.
func TestQuantile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sorted  []float64
		p, want float64
	}{
		{[]float64{7}, 0.25, 7},
		{[]float64{1, 2}, 0.5, 1.5},
		{[]float64{1, 2, 3, 4}, 0, 1},
		{[]float64{1, 2, 3, 4}, 1, 4},
		{[]float64{1, 2, 3, 4}, 0.25, 1.75},
		{[]float64{0.9, 1, 1, 1.1, 1.3, 9}, 0.75, 1.25},
	} {
		require.InDelta(t, c.want, quantile(c.sorted, c.p), 1e-12, "%v at %v", c.sorted, c.p)
	}
	require.Equal(t, 2.0, median([]float64{4, 1, 2}), "unsorted values")
}
