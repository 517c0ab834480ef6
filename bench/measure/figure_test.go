package measure_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/bench/measure"
)

// played is a figure whose costs are known: those of ours in each round, behind
// its cost in the warm-up, beside a baseline that costs the same each time.
func played(plain float64, ours ...float64) measure.Figure {
	var mine bool
	side := func(is bool) measure.Op {
		return func(context.Context, int) error { mine = is; return nil }
	}
	blocks := 2 // two are the warm-up
	return measure.Figure{
		Name: "ours", Baseline: "plain", Plain: side(false), Ours: side(true),
		Cost: func(_ context.Context, _ int, block func() error) (float64, error) {
			round := blocks / 4
			blocks++
			if err := block(); err != nil || !mine {
				return plain, err
			}
			return ours[round], nil
		},
	}
}

// row is the one of a figure that has no time: three rounds.
func row(t *testing.T, f measure.Figure) measure.Row {
	t.Helper()
	var rows []measure.Row
	require.NoError(t, measure.Plan{}.Run(t.Context(), "group", []measure.Measurement{f}, func(r measure.Row) error {
		rows = append(rows, r)
		return nil
	}))
	require.Len(t, rows, 1)
	return rows[0]
}

func TestTheRatioIsTheMedianOverTheRoundsBehindTheWarmUp(t *testing.T) {
	t.Parallel()
	r := row(t, played(10, 9999, 30, 10, 11))
	require.Equal(t, measure.Row{
		Group: "group", Name: "ours", Baseline: "plain", Ratio: 1.1, Q1: 1.05, Q3: 2.05, Operations: 96,
	}, r)
}

func TestATargetIsMetByWhatIsPrinted(t *testing.T) {
	t.Parallel()
	same := func(cost float64) []float64 { return []float64{cost, cost, cost, cost} }
	for name, c := range map[string]struct {
		ours, target, extra, want float64
		met                       bool
	}{
		"below":                                {10.2, 1.03, 0, 1.03, true},
		"as high":                              {10.3, 1.03, 0, 1.03, true},
		"above, where nobody can see it":       {10.304, 1.03, 0, 1.03, true},
		"above":                                {10.31, 1.03, 0, 1.03, false},
		"as much more as the baseline allows":  {16, 0, 6, 1.6, true},
		"more than that":                       {16.01, 0, 6, 1.6, false},
		"less than the baseline, which may be": {9, 1.03, 0, 1.03, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := played(10, same(c.ours)...)
			f.Target, f.Extra = c.target, c.extra
			r := row(t, f)
			require.NotNil(t, r.Target)
			require.Equal(t, c.want, *r.Target)
			require.Equal(t, c.met, *r.Met)
		})
	}
}

func TestNoiseIsTheBaselineAgainstItselfWithoutATarget(t *testing.T) {
	t.Parallel()
	f := played(10, 20, 20, 20, 20)
	f.Target, f.Extra = 1, 1
	r := row(t, f.AA("a/a"))
	require.Equal(t, measure.Row{
		Group: "group", Name: "a/a", Baseline: "plain", Ratio: 1, Q1: 1, Q3: 1, Operations: 96,
	}, r)
}

func TestBlocksTakeTurns(t *testing.T) {
	t.Parallel()
	var order strings.Builder
	say := func(side string) measure.Op {
		return func(context.Context, int) error { order.WriteString(side); return nil }
	}
	var prepared int
	row(t, measure.Figure{
		Name: "ours", Baseline: "plain", Plain: say("P"), Ours: say("O"),
		Setup: func(context.Context) error { prepared++; require.Empty(t, order.String()); return nil },
	})
	P, O := strings.Repeat("P", 16), strings.Repeat("O", 16)
	even, odd := P+O+O+P, O+P+P+O
	require.Equal(t, P+O+even+odd+even, order.String())
	require.Equal(t, 1, prepared)
}

func TestWorkersRunAtOnceEachUnderItsOwnNumber(t *testing.T) {
	t.Parallel()
	var calls [3]atomic.Int64
	var all sync.WaitGroup // of a block's first operations
	all.Add(3)
	op := func(_ context.Context, worker int) error {
		if calls[worker].Add(1) == 1 {
			all.Done()
			all.Wait()
		}
		return nil
	}
	r := row(t, measure.Figure{Name: "ours", Baseline: "plain", Plain: op, Ours: op, Workers: 3})
	for i := range calls {
		require.EqualValues(t, (2+3*4)*16, calls[i].Load())
	}
	require.Equal(t, 3*2*16*3, r.Operations)
}

func TestEachWorkerHasItsOwnContextInEveryBlock(t *testing.T) {
	t.Parallel()
	type key struct{}
	var made atomic.Int64
	op := func(ctx context.Context, worker int) error {
		if ctx.Value(key{}) != worker {
			return errors.New("another's context")
		}
		return nil
	}
	row(t, measure.Figure{Plain: op, Ours: op, Workers: 2, Context: func(ctx context.Context, worker int) context.Context {
		made.Add(1)
		return context.WithValue(ctx, key{}, worker)
	}})
	require.EqualValues(t, 2*(2+3*4), made.Load(), "once for each worker and block")
}

func TestAFailureEndsEverythingAndSaysWhere(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection refused")
	fine := func(context.Context, int) error { return nil }
	fails := func(_ context.Context, worker int) error {
		if worker == 1 {
			return broken
		}
		return nil
	}
	waits := func(ctx context.Context, worker int) error {
		if worker == 1 {
			return broken
		}
		<-ctx.Done() // of the other's failure
		return ctx.Err()
	}
	free := func(context.Context, int, func() error) (float64, error) { return 0, nil }
	for want, f := range map[string]measure.Figure{
		"group: ours: connection refused":                                   {Plain: fine, Ours: fails, Workers: 2},
		"group: plain: connection refused":                                  {Plain: waits, Ours: fine, Workers: 2},
		"group: prepare ours: connection refused":                           {Plain: fine, Ours: fine, Setup: func(context.Context) error { return broken }},
		"group: plain: it cost nothing, which nothing can be compared with": {Plain: fine, Ours: fine, Cost: free},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			f.Name, f.Baseline = "ours", "plain"
			never := func(measure.Row) error { return errors.New("shown") }
			err := measure.Plan{}.Run(t.Context(), "group", []measure.Measurement{f, f}, never)
			require.EqualError(t, err, want)
		})
	}
}
