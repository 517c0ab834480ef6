package main

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/kernel"
)

func TestOneScheduleIsToldFromBeginningToEnd(t *testing.T) {
	t.Parallel()
	done := execute(t, "explore", "--seed", "5", "--schedules", "1")
	require.Zero(t, done.status, done.err)
	require.Empty(t, done.err)
	heading, table, found := strings.Cut(done.out, "\n\n")
	require.True(t, found)
	require.Equal(t, "Seed 5, guarded, as it happened", heading)
	run, err := new(kernel.Player).Play(5, kernel.Setting{Faults: kernel.All})
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(table, "\n"), "\n")
	require.Len(t, lines, 1+len(run.History.Ops), "a line for each op")
	require.Regexp(t, `^from ms +to ms +who +resource +what +token +outcome$`, lines[0])
	last := -1.
	for _, line := range lines[1:] {
		began, err := strconv.ParseFloat(strings.Fields(line)[0], 64)
		require.NoError(t, err)
		require.GreaterOrEqual(t, began, last, "in the order in which they began")
		last = began
	}
	require.Equal(t, done.out, execute(t, "explore", "--seed", "5", "--schedules", "1").out)
}

func TestOneScheduleAsksNothingOfItsControl(t *testing.T) {
	t.Parallel()
	done := execute(t, "explore", "--seed", harmless(t), "--schedules", "1", "--faults", "none", "--json")
	require.Zero(t, done.status, done.err)
	require.Contains(t, done.out, `"control_violations":0`)
}
