package simulate

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/cli"
)

func TestProgressDrawsOverItsLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := newProgress(&out, 10, false)
	p.Drawn = true
	for _, e := range []Event{
		{Writer: "A", Kind: Holds}, {Writer: "A", Kind: Stopped}, {Writer: "B", Kind: Asks},
		{Writer: "B", Kind: Holds}, {Writer: "A", Kind: Continued}, {Writer: "A", Kind: Refused},
	} {
		p.observe(Progress{Way: CheckThenWrite, Round: 4, Event: e})
	}
	p.Clear()
	require.NotContains(t, out.String(), "\n")
	lines := strings.Split(strings.TrimPrefix(out.String(), "\r"), "\r")
	var scenes []string
	for _, line := range lines[:len(lines)-1] {
		require.Equal(t, 79, utf8.RuneCountInString(line), "what was there is covered")
		if _, scene, found := strings.Cut(line, "23/40  check-then-write  "); found {
			scenes = append(scenes, strings.TrimSpace(scene))
		}
	}
	require.Equal(t, []string{
		"A has the lock", "A is stopped", "A stopped, B waits", "A stopped, B has the lock", "A resumes and writes",
	}, scenes)
	require.Empty(t, lines[len(lines)-1])
}

func TestProgressOfNothingLeavesNothing(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := newProgress(&out, 10, false)
	p.Drawn = true
	p.Clear()
	require.Empty(t, out.String())
}

func TestTheVerdictCountsUpdates(t *testing.T) {
	t.Parallel()
	for rounds, lost := range map[int]string{1: "With the lock alone, 1 acknowledged update was lost. ", 3: "With the lock alone, 3 acknowledged updates were lost. "} {
		_, text := verdictText(&Report{Rounds: rounds, Runs: []Count{
			{Name: Unguarded, StaleAttempted: rounds, StaleAccepted: rounds, UpdatesLost: rounds}, {Name: Guarded, StaleAttempted: rounds, Refused: rounds},
		}})
		require.Contains(t, text, lost)
	}
}

func TestVerdictAndStatus(t *testing.T) {
	t.Parallel()
	lost := Count{Name: Unguarded, StaleAttempted: 3, StaleAccepted: 3, UpdatesLost: 3}
	held := Count{Name: Guarded, StaleAttempted: 3, Refused: 3}
	for name, c := range map[string]struct {
		runs   []Count
		status int
		text   string
	}{
		"the fence holds": {[]Count{lost, held}, 0, "the fence holds"},
		"a stale write was accepted": {
			[]Count{lost, {Name: Guarded, StaleAttempted: 3, StaleAccepted: 1, UpdatesLost: 1, Refused: 2}},
			1, "the fence does NOT hold.\n  Guarded, 1 of 3 stale writes was accepted and 1 update was lost.",
		},
		"nothing was lost without a guard": {
			[]Count{{Name: Unguarded, StaleAttempted: 3}, held}, 1, "nothing is shown",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := &Report{Rounds: 3, Runs: c.runs}
			require.Contains(t, verdict(report, cli.Style{}), c.text)
			var printed bytes.Buffer
			require.Equal(t, c.status, cli.Status("fencepost", proven(report), &printed))
			require.Empty(t, printed.String(), "the verdict has said it")
		})
	}
}

// Counted returns the count of one round in which answerA was the reply to A and the row
// ended with increments.
func Counted(answerA Kind, increments string) Count {
	var c Count
	c.add(&Round{answerA: Event{Kind: answerA}, row: account{increments: increments}})
	return c
}
