package simulate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/simulate"
)

// What the row holds counts, whatever the writers were told.
func TestCount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer                  simulate.Kind
		increments              string
		accepted, lost, refused int
	}{
		"refused, and not in the row":              {simulate.Refused, "B+20", 0, 0, 1},
		"refused, and in the row all the same":     {simulate.Refused, "B+20 A+50", 1, 0, 1},
		"refused, and it overwrote all the same":   {simulate.Refused, "A+50", 1, 1, 1},
		"accepted, over the successor's":           {simulate.Accepted, "A+50", 1, 1, 0},
		"accepted, beside the successor's":         {simulate.Accepted, "B+20 A+50", 1, 0, 0},
		"accepted, and not in the row":             {simulate.Accepted, "B+20", 1, 1, 0},
		"accepted, and the row has nothing at all": {simulate.Accepted, "", 1, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			count := simulate.Counted(c.answer, c.increments)
			require.Equal(t, []int{1, c.accepted, c.lost, c.refused}, figures(count))
		})
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	good := simulate.Count{Name: simulate.Guarded, StaleAttempted: 3, Refused: 3}
	bad := simulate.Count{Name: simulate.Unguarded, StaleAttempted: 3, StaleAccepted: 3, UpdatesLost: 3}
	for name, c := range map[string]struct {
		runs              []simulate.Count
		fenced, corrupted bool
	}{
		"the fence holds":                     {[]simulate.Count{bad, good}, true, true},
		"a stale write was accepted":          {[]simulate.Count{bad, {Name: simulate.Guarded, StaleAttempted: 3, StaleAccepted: 1, Refused: 2}}, false, true},
		"an update was lost behind the guard": {[]simulate.Count{bad, {Name: simulate.Guarded, StaleAttempted: 3, UpdatesLost: 1, Refused: 3}}, false, true},
		"nothing stale was tried":             {[]simulate.Count{bad, {Name: simulate.Guarded}}, false, true},
		"nothing was lost without a guard":    {[]simulate.Count{{Name: simulate.Unguarded, StaleAttempted: 3}, good}, true, false},
		"nothing was run":                     {nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := simulate.Report{Runs: c.runs}
			require.Equal(t, c.fenced, report.Fenced())
			require.Equal(t, c.corrupted, report.Corrupted())
		})
	}
}
