package main

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/simulate"
)

func TestVerdictAndStatus(t *testing.T) {
	t.Parallel()
	lost := simulate.Count{Name: simulate.Unguarded, StaleAttempted: 3, StaleAccepted: 3, UpdatesLost: 3}
	held := simulate.Count{Name: simulate.Guarded, StaleAttempted: 3, Refused: 3}
	for name, c := range map[string]struct {
		runs   []simulate.Count
		status int
		text   string
	}{
		"the fence holds": {[]simulate.Count{lost, held}, 0, "the fence holds"},
		"a stale write was accepted": {
			[]simulate.Count{lost, {Name: simulate.Guarded, StaleAttempted: 3, StaleAccepted: 1, UpdatesLost: 1, Refused: 2}},
			1, "the fence does NOT hold.\n  Guarded, 1 of 3 stale writes were accepted and 1 update was lost.",
		},
		"nothing was lost without a guard": {
			[]simulate.Count{{Name: simulate.Unguarded, StaleAttempted: 3}, held}, 1, "nothing is shown",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := &simulate.Report{Rounds: 3, Runs: c.runs}
			require.Contains(t, verdict(report, style{}), c.text)
			var told bytes.Buffer
			require.Equal(t, c.status, status(proven(report), &told))
			require.Empty(t, told.String(), "the verdict has said it")
		})
	}
}

func TestStatusSaysOneLine(t *testing.T) {
	t.Parallel()
	var told bytes.Buffer
	err := fmt.Errorf("postgres: %w", errors.New("connect:\n\tfirst: refused\n\tfirst: refused\n\tsecond: refused"))
	require.Equal(t, 2, status(err, &told))
	require.Equal(t, "fencepost: postgres: connect: first: refused; second: refused\n", told.String())
}
