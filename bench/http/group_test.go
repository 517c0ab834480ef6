package http_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/bench/http"
	"github.com/fencepost/fencepost/bench/measure"
	"github.com/fencepost/fencepost/internal/testenv"
)

// Every figure is measured on real servers, in as few rounds as there may be, of
// short blocks. Each of its operations checks that it did what it is named for.
func TestEveryFigureIsMeasured(t *testing.T) {
	t.Parallel()
	g, err := http.Open(t.Context(), testenv.Database(t), testenv.RedisURL(t))
	require.NoError(t, err)
	defer g.Close()
	figures := g.Figures()
	for i := range figures {
		figures[i].Size = min(figures[i].Size, 400)
		if figures[i].Size == 0 {
			figures[i].Size = 4
		}
	}
	var names []string
	require.NoError(t, measure.Plan{}.Run(t.Context(), "http", measure.All(figures), func(r measure.Row) error {
		names = append(names, r.Name)
		require.Positive(t, r.Ratio, r.Name)
		require.LessOrEqual(t, r.Q1, r.Ratio, r.Name)
		require.GreaterOrEqual(t, r.Q3, r.Ratio, r.Name)
		return nil
	}))
	require.Equal(t, []string{
		"allocations", "allocations, sealed",
		"in memory, a/a", "in memory", "in memory, beside", "in memory, sealed",
		"end to end, a/a", "end to end", "end to end, sealed", "end to end, refused",
		"end to end, a/a, 16 workers", "end to end, 16 workers", "end to end, sealed, 16 workers", "end to end, refused, 16 workers",
		"in memory, marks in PostgreSQL", "in memory, marks in Redis",
	}, names)
}
