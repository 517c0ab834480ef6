package measure_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/bench/measure"
)

// The values are those of R's quantile(x, p), whose default is type 7.
func TestQuantile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sorted  []float64
		p, want float64
	}{
		{[]float64{7}, 0.25, 7},
		{[]float64{7}, 1, 7},
		{[]float64{1, 2}, 0.5, 1.5},
		{[]float64{1, 2, 3, 4}, 0, 1},
		{[]float64{1, 2, 3, 4}, 0.25, 1.75},
		{[]float64{1, 2, 3, 4}, 0.5, 2.5},
		{[]float64{1, 2, 3, 4}, 0.75, 3.25},
		{[]float64{1, 2, 3, 4}, 1, 4},
		{[]float64{1, 2, 4, 8, 16}, 0.75, 8},
		{[]float64{0.9, 1, 1, 1.1, 1.3, 9}, 0.75, 1.25},
	} {
		require.InDelta(t, c.want, measure.Quantile(c.sorted, c.p), 1e-12, "%v at %v", c.sorted, c.p)
	}
}
