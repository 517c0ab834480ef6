package main

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// explorations is the object of a run in which the guard held.
func explorations(t *testing.T, out string) map[string]any {
	t.Helper()
	all := objects(t, out)
	require.Len(t, all, 1)
	require.Equal(t, []string{
		"acknowledged", "control_broken_seed", "control_lost", "control_violations", "lost", "schedules", "seed", "violations",
	}, slices.Sorted(maps.Keys(all[0])))
	return all[0]
}

func TestExploreAsJSONIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	done := execute(t, "explore", "--schedules", "100", "--seed", "7", "--json")
	require.Zero(t, done.status, done.err)
	require.Empty(t, done.err)
	figures := explorations(t, done.out)
	require.Equal(t, 100., figures["schedules"])
	require.Equal(t, 7., figures["seed"])
	require.Zero(t, figures["violations"])
	require.Zero(t, figures["lost"])
	for _, name := range []string{"acknowledged", "control_violations", "control_lost"} {
		require.Positive(t, figures[name], name)
	}
	require.GreaterOrEqual(t, figures["control_broken_seed"], 7.)
	require.Equal(t, done.out, execute(t, "explore", "--schedules", "100", "--seed", "7", "--json").out)
}

func TestExploreOfSomeFaultsPlaysOthersThanOfAll(t *testing.T) {
	t.Parallel()
	few := execute(t, "explore", "--schedules", "100", "--faults", "pause,suspend", "--json")
	require.Zero(t, few.status, few.err)
	all := execute(t, "explore", "--schedules", "100", "--json")
	require.NotEqual(t, explorations(t, all.out)["acknowledged"], explorations(t, few.out)["acknowledged"])
	same := execute(t, "explore", "--schedules", "100", "--faults", "suspend", "--faults", "pause", "--json")
	require.Equal(t, few.out, same.out, "in whatever order they are named")
}
