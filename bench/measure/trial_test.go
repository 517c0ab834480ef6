package measure_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/bench/measure"
)

// lasts reads one value after the other, each in a block that lasts as long as it
// is told to.
func lasts(quantity string, values ...float64) measure.Run {
	n := 0
	return func(_ context.Context, d time.Duration) (measure.Reading, error) {
		time.Sleep(d)
		n++
		return measure.Reading{quantity: values[min(n, len(values))-1], measure.Operations: 10}, nil
	}
}

// trialled are the rows of a trial, and how long it took.
func trialled(t *testing.T, budget time.Duration, trial measure.Trial) ([]measure.Row, time.Duration) {
	t.Helper()
	var rows []measure.Row
	start := time.Now()
	err := measure.Plan{Budget: budget}.Run(t.Context(), "group", measure.All([]measure.Trial{trial}), func(r measure.Row) error {
		rows = append(rows, r)
		return nil
	})
	require.NoError(t, err)
	return rows, time.Since(start)
}

func value(side, quantity string) measure.Value {
	return measure.Value{Side: side, Quantity: quantity}
}

func TestATrialReadsSeveralRatiosOffTheSameBlocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rows, took := trialled(t, 0, measure.Trial{
			Sides: []measure.Side{{"ours", lasts("wait", 3, 5, 4)}, {"floor", lasts("wait", 2, 2, 4)}},
			Ratios: []measure.Ratio{
				{Name: "wait", Baseline: "floor", Of: value("ours", "wait"), Over: value("floor", "wait"), Target: 1.5},
				{Name: "alone", Baseline: "1 s", Of: value("ours", "wait"), Target: 4.001, AtLeast: true},
			},
			Shortest: time.Second,
		})
		require.Equal(t, 6*time.Second, took)
		require.Len(t, rows, 2)
		require.Equal(t, 1.5, rows[0].Ratio)
		require.Equal(t, [2]float64{1.25, 2}, [2]float64{rows[0].Q1, rows[0].Q3})
		require.True(t, *rows[0].Met)
		require.Equal(t, 30, rows[0].Operations)
		require.Equal(t, 4.0, rows[1].Ratio)
		require.False(t, *rows[1].Met, "less than there should be at least")
		require.True(t, rows[1].AtLeast)
	})
}

func TestSidesTakeTurnsFromBothEnds(t *testing.T) {
	t.Parallel()
	var order strings.Builder
	var sides []measure.Side
	for _, name := range []string{"A", "B", "C"} {
		sides = append(sides, measure.Side{Name: name, Run: func(_ context.Context, d time.Duration) (measure.Reading, error) {
			if d == time.Hour {
				name = strings.ToLower(name)
			}
			order.WriteString(name)
			name = strings.ToUpper(name)
			return nil, nil
		}})
	}
	trialled(t, 0, measure.Trial{Sides: sides, WarmUp: time.Hour})
	require.Equal(t, "abc"+"ABC"+"CBA"+"ABC", order.String())
}

func TestATrialSpendsItsShare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shortest, longest, budget, want time.Duration
		rounds                          int
	}{
		"in blocks that are as long as there is time for five of each": {time.Second, time.Minute, 100 * time.Second, 100 * time.Second, 0},
		"in more blocks where they are long enough":                    {time.Second, 2 * time.Second, 100 * time.Second, 100 * time.Second, 0},
		"in blocks of one length":                                      {time.Second, 0, 10 * time.Second, 10 * time.Second, 0},
		"and more for three rounds":                                    {time.Minute, 0, 10 * time.Second, 6 * time.Minute, 0},
		"and more for as many as it must":                              {time.Minute, 0, 10 * time.Second, 2 * time.Minute, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, took := trialled(t, c.budget, measure.Trial{
					Sides:    []measure.Side{{"ours", lasts("wait", 1)}, {"floor", lasts("wait", 1)}},
					Shortest: c.shortest, Longest: c.longest, Rounds: c.rounds,
				})
				require.Equal(t, c.want, took)
			})
		})
	}
}

func TestATrialThatFailsSaysWhere(t *testing.T) {
	t.Parallel()
	read := func(r measure.Reading, err error) []measure.Side {
		return []measure.Side{
			{"floor", func(context.Context, time.Duration) (measure.Reading, error) { return measure.Reading{"wait": 0}, nil }},
			{"ours", func(context.Context, time.Duration) (measure.Reading, error) { return r, err }},
		}
	}
	for want, sides := range map[string][]measure.Side{
		"group: 8 waiters: ours: two have it at once":                                            read(nil, errors.New("two have it at once")),
		"group: 8 waiters: wait p99: ours: there was no wait":                                    read(measure.Reading{"hold": 1}, nil),
		"group: 8 waiters: wait p99: floor: wait is nothing, which nothing can be compared with": read(measure.Reading{"wait": 1}, nil),
	} {
		trial := measure.Trial{Name: "8 waiters", Sides: sides, Ratios: []measure.Ratio{{
			Name: "wait p99", Of: value("ours", "wait"), Over: value("floor", "wait"),
		}}}
		never := func(measure.Row) error { return errors.New("shown") }
		err := measure.Plan{}.Run(t.Context(), "group", []measure.Measurement{trial, trial}, never)
		require.EqualError(t, err, want)
	}
}
