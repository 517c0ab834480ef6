package write_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/bench/measure"
	"github.com/fencepost/fencepost/bench/write"
	"github.com/fencepost/fencepost/internal/testenv"
)

// Every figure is measured on a real server, in as few rounds as there may be, of
// short blocks. Each of its operations checks that it did what it is named for.
func TestEveryFigureIsMeasured(t *testing.T) {
	t.Parallel()
	g, err := write.Open(t.Context(), testenv.Database(t))
	require.NoError(t, err)
	defer g.Close()
	figures := g.Figures()
	for i := range figures {
		figures[i].Size = 4
	}
	rows := map[string]measure.Row{}
	var names []string
	require.NoError(t, measure.Plan{}.Run(t.Context(), "write", measure.All(figures), func(r measure.Row) error {
		names, rows[r.Name] = append(names, r.Name), r
		return nil
	}))
	require.Equal(t, []string{
		"Table.Update WAL bytes", "Table.Update updates per HOT update", "On(…).Exec WAL bytes",
		"a/a", "Table.Update", "On(…).Exec", "Update", "On(…).Exec, protected table",
		"Table.Update, refused", "On(…).Exec, refused", "Admit, claimed", "Mint",
		"a/a, asynchronous commit", "Table.Update, asynchronous commit", "On(…).Exec, asynchronous commit",
		"Update, asynchronous commit", "On(…).Exec, protected table, asynchronous commit",
		"a/a, 16 goroutines", "Table.Update, 16 goroutines", "On(…).Exec, 16 goroutines", "Update, 16 goroutines",
		"On(…).Exec, protected table, 16 goroutines",
		"Table.Update, refused, 16 goroutines", "On(…).Exec, refused, 16 goroutines", "Admit, claimed, 16 goroutines", "Mint, 16 goroutines",
	}, names)
	for name, r := range rows {
		require.Positive(t, r.Ratio, name)
		require.LessOrEqual(t, r.Q1, r.Ratio, name)
		require.GreaterOrEqual(t, r.Q3, r.Ratio, name)
	}
}
