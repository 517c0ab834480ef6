package pglock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/bench/measure"
	"github.com/fencepost/fencepost/bench/pglock"
	"github.com/fencepost/fencepost/internal/testenv"
)

// Every figure and trial is measured on a real server, in as few rounds as there
// may be, of short blocks. Each of their operations checks that it did what it is
// named for.
func TestEverythingIsMeasured(t *testing.T) {
	t.Parallel()
	g, err := pglock.Open(t.Context(), testenv.Database(t))
	require.NoError(t, err)
	defer g.Close()
	all := g.Measurements()
	for i, m := range all {
		switch m := m.(type) {
		case measure.Figure:
			m.Size = 4
			all[i] = m
		case measure.Trial:
			m.Rounds, m.Shortest, m.Longest, m.WarmUp = 1, 500*time.Millisecond, 0, 0
			all[i] = m
		}
	}
	rows := map[string]measure.Row{}
	var names []string
	require.NoError(t, measure.Plan{}.Run(t.Context(), "pglock", all, func(r measure.Row) error {
		names, rows[r.Name] = append(names, r.Name), r
		return nil
	}))
	require.Equal(t, []string{
		"a row: round trips", "a row, claimed: round trips", "a row, Hold: round trips", "advisory: round trips",
		"a/a", "a row", "a row, claimed", "a row, Hold", "advisory",
		"a/a, 16 goroutines", "a row, 16 goroutines", "a row, claimed, 16 goroutines", "a row, Hold, 16 goroutines", "advisory, 16 goroutines",
	}, names[:14])
	require.Len(t, names, 14+3*6)
	for name, r := range rows {
		require.Positive(t, r.Ratio, name)
	}
	require.Equal(t, 2.0, rows["a row: round trips"].Ratio)
}
