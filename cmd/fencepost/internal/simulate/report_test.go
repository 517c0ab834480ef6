package simulate

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/rounds"
)

func TestProgressDrawsOverItsLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &progress{Line: cli.NewLine(&out), rounds: 10}
	p.Drawn = true
	for _, moment := range []rounds.Moment{rounds.Begins, rounds.Stopped, rounds.Succeeded, rounds.Ended} {
		p.observe(CheckThenWrite, 4, moment)
	}
	p.Clear()
	require.NotContains(t, out.String(), "\n")
	require.Equal(t, 1, strings.Count(out.String(), "check-then-write: 4 of 10 rounds"))
}

// The count depends on the contents of the row, whatever the writers' replies were.
func TestCount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer                  history.Outcome
		increments              string
		accepted, lost, refused int
	}{
		"refused, and not in the row":              {history.Refused, "B+20", 0, 0, 1},
		"refused, and in the row all the same":     {history.Refused, "B+20 A+50", 1, 0, 1},
		"refused, and it overwrote all the same":   {history.Refused, "A+50", 1, 1, 1},
		"accepted, over the successor's":           {history.Accepted, "A+50", 1, 1, 0},
		"accepted, beside the successor's":         {history.Accepted, "B+20 A+50", 1, 0, 0},
		"accepted, and not in the row":             {history.Accepted, "B+20", 1, 1, 0},
		"accepted, and the row has nothing at all": {history.Accepted, "", 1, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var count Count
			row := account{increments: c.increments}
			count.add(c.answer, row, row.lacks(acknowledged(c.answer)))
			require.Equal(t, Count{StaleAttempted: 1, StaleAccepted: c.accepted, UpdatesLost: c.lost, Refused: c.refused}, count)
		})
	}
}

func TestARoundThatDiffersFromTheDrawingIsAnError(t *testing.T) {
	t.Parallel()
	a, b := rounds.Answer{Outcome: history.Refused, Number: 1}, rounds.Answer{Outcome: history.Accepted, Number: 2}
	require.True(t, asDrawn(rounds.Round{A: a, B: b}))
	for name, r := range map[string]rounds.Round{
		"A was not stopped":      {A: a, B: b, Missed: true},
		"B waited for A":         {A: a, B: b, Blocked: true},
		"B had the older number": {A: b, B: a},
		"A never had the lock":   {A: rounds.Answer{Outcome: history.Refused}, B: b},
		"A's outcome is unknown": {A: rounds.Answer{Outcome: history.Unknown, Number: 1}, B: b},
		"A failed":               {A: rounds.Answer{Outcome: history.Failed, Number: 1}, B: b},
	} {
		require.False(t, asDrawn(r), name)
		require.ErrorContains(t, new(series).count(t.Context(), r), "differs from the drawing", name)
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	lost := Count{Name: Unguarded, StaleAttempted: 3, StaleAccepted: 3, UpdatesLost: 3}
	held := Count{Name: Guarded, StaleAttempted: 3, Refused: 3}
	for name, c := range map[string]struct {
		runs              []Count
		fenced, corrupted bool
		text              string
	}{
		"the fence holds": {[]Count{lost, held}, true, true, "the fence holds.\n  Acknowledged updates lost with the lock alone: 3."},
		"a stale write was accepted": {
			[]Count{lost, {Name: Guarded, StaleAttempted: 3, StaleAccepted: 1, UpdatesLost: 1, Refused: 2}}, false, true,
			"the fence does NOT hold.\n  Guarded, 1 of 3 stale writes accepted, 1 updates lost.",
		},
		"an update was lost behind the guard": {[]Count{lost, {Name: Guarded, StaleAttempted: 3, UpdatesLost: 1, Refused: 3}}, false, true, "does NOT hold"},
		"nothing stale was tried":             {[]Count{lost, {Name: Guarded}}, false, true, "does NOT hold"},
		"nothing was lost without a guard":    {[]Count{{Name: Unguarded, StaleAttempted: 3}, held}, true, false, "nothing is shown"},
		"nothing was run":                     {nil, false, false, "does NOT hold"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := &Report{Rounds: 3, Runs: c.runs}
			require.Equal(t, c.fenced, report.fenced())
			require.Equal(t, c.corrupted, report.corrupted())
			heading, why := verdict(report)
			require.Contains(t, heading+"\n"+cli.Fill(why, 2), c.text)
			drawn, err := page(report)
			require.NoError(t, err)
			require.Equal(t, "Verdict: "+heading, drawn.Title, "the first words of the page")
			require.True(t, strings.HasPrefix(drawn.Lead, why+"\n"))
			require.Len(t, drawn.Table, 1+len(c.runs))
		})
	}
}
