package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/bench/measure"
)

// costing is a figure whose baseline costs 100, and ours what it is told: no
// server is needed for that.
func costing(name string, cost, target float64) measure.Figure {
	var spent float64
	costs := func(cost float64) measure.Op {
		return func(context.Context, int) error { spent = cost; return nil }
	}
	return measure.Figure{
		Name: name, Baseline: "plain UPDATE", Target: target, Plain: costs(100), Ours: costs(cost),
		Cost: func(_ context.Context, _ int, block func() error) (float64, error) {
			err := block()
			return spent, err
		},
	}
}

// standIn counts how often it is stopped.
func standIn(name string, stopped *int, figures ...measure.Figure) group {
	return group{name, func(context.Context) ([]measure.Measurement, func() error, error) {
		return measure.All(figures), func() error { *stopped++; return nil }, nil
	}}
}

// printed is a group with each kind of row.
func printed(t *testing.T, o options) string {
	t.Helper()
	var out strings.Builder
	var stopped int
	met := costing("Table.Update", 101, 1.03)
	require.NoError(t, o.measure(t.Context(), standIn("write", &stopped,
		met.AA("a/a"), met, costing("On(…).Exec", 123.45, 1.22)), &out))
	require.Equal(t, 1, stopped)
	return out.String()
}

func TestARowIsALineOfJSON(t *testing.T) {
	t.Parallel()
	require.Equal(t, `{"group":"write","name":"a/a","baseline":"plain UPDATE","ratio":1,"q1":1,"q3":1,"target":null,"met":null}
{"group":"write","name":"Table.Update","baseline":"plain UPDATE","ratio":1.01,"q1":1.01,"q3":1.01,"target":1.03,"met":true}
{"group":"write","name":"On(…).Exec","baseline":"plain UPDATE","ratio":1.235,"q1":1.235,"q3":1.235,"target":1.22,"met":false}
`, printed(t, options{json: true}))
}

func TestATableHasARowForEachFigure(t *testing.T) {
	t.Parallel()
	require.Equal(t, `group     name          baseline       ratio  quartiles      target  met  operations
write     a/a           plain UPDATE   1.000  1.000–1.000         –  –    96
write     Table.Update  plain UPDATE   1.010  1.010–1.010     1.030  yes  96
write     On(…).Exec    plain UPDATE   1.235  1.235–1.235     1.220  no   96
`, printed(t, options{}))
}

func TestATargetThatIsTheLeastIsShownAsOne(t *testing.T) {
	t.Parallel()
	trial := measure.Trial{
		Sides: []measure.Side{{Name: "ours", Run: func(context.Context, time.Duration) (measure.Reading, error) {
			return measure.Reading{"fairness": 0.995, measure.Operations: 7}, nil
		}}},
		Ratios: []measure.Ratio{{
			Name: "fairness", Baseline: "all as often", Of: measure.Value{Side: "ours", Quantity: "fairness"}, Target: 0.99, AtLeast: true,
		}},
		Rounds: 1,
	}
	all := []group{{"handover", func(context.Context) ([]measure.Measurement, func() error, error) {
		return []measure.Measurement{trial}, func() error { return nil }, nil
	}}}
	var out strings.Builder
	require.NoError(t, options{}.measure(t.Context(), all[0], &out))
	require.Equal(t, `group     name      baseline       ratio  quartiles      target  met  operations
handover  fairness  all as often   0.995  0.995–0.995    ≥0.990  yes  7
`, out.String())
	out.Reset()
	require.NoError(t, options{json: true}.measure(t.Context(), all[0], &out))
	require.Equal(t, `{"group":"handover","name":"fairness","baseline":"all as often","ratio":0.995,"q1":0.995,"q3":0.995,"target":0.99,"at_least":true,"met":true}
`, out.String())
}
