package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/kernel"
)

// graveyard is what `explore --mutants --json` has printed, each mutant in its
// place.
func graveyard(t *testing.T, done finished) deaths {
	t.Helper()
	require.Empty(t, done.err)
	var all deaths
	require.NoError(t, json.Unmarshal([]byte(done.out), &all))
	mutants, survivors := kernel.Mutants(), 0
	require.Len(t, all.Mutants, len(mutants))
	for i, d := range all.Mutants {
		require.Equal(t, mutants[i].Name, d.Name)
		require.Equal(t, mutants[i].Place, d.Place)
		require.Equal(t, d.Seed == 0, d.Rule == "", d.Name)
		if d.Seed == 0 {
			survivors++
		}
	}
	require.Equal(t, survivors, all.Survivors)
	return all
}

func TestEveryMutantIsNamedWithTheSeedThatFindsIt(t *testing.T) {
	t.Parallel()
	done := execute(t, "explore", "--mutants", "--json")
	require.Zero(t, done.status, done.out)
	all := graveyard(t, done)
	require.Zero(t, all.Survivors)
	for _, d := range all.Mutants {
		require.LessOrEqual(t, d.Seed, uint64(100), d.Name)
	}
	requireTable(t, all)
}

func TestTheJSONOfMutantsHasItsDocumentedKeys(t *testing.T) {
	t.Parallel()
	done := execute(t, "explore", "--mutants", "--schedules", "2", "--json")
	all := objects(t, done.out)
	require.Len(t, all, 1)
	require.Equal(t, []string{"mutants", "survivors"}, slices.Sorted(maps.Keys(all[0])))
	first := all[0]["mutants"].([]any)[0].(map[string]any)
	require.Subset(t, []string{"killed_by_seed", "name", "place", "rule", "took_ms"}, slices.Collect(maps.Keys(first)))
	require.Subset(t, slices.Collect(maps.Keys(first)), []string{"killed_by_seed", "name", "place", "took_ms"})
}

func TestSurvivorsAreTold(t *testing.T) {
	t.Parallel()
	done := execute(t, "explore", "--mutants", "--faults", "delay", "--schedules", "2", "--json")
	require.Equal(t, 1, done.status)
	all := graveyard(t, done)
	require.Positive(t, all.Survivors)
	require.Less(t, all.Survivors, len(all.Mutants))
	text := graves(kernel.Plan{Schedules: 2}, all, style{})
	require.Equal(t, all.Survivors, strings.Count(text, "  survives"))
	require.Equal(t, len(all.Mutants)-all.Survivors, strings.Count(text, " ms\n"))
	require.Regexp(t, `\n\nVerdict: \d+ of \d+ mutants survive 2 seeds\.\n$`, text)
	all.Survivors = 0
	require.Regexp(t, `\n\nVerdict: all \d+ mutants were found\.\n$`, graves(kernel.Plan{}, all, style{}))
}
