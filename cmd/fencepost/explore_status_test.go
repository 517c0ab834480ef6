package main

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/kernel"
)

func TestExploreOfWhatCannotBePlayed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ args, text string }{
		"no seed":               {"--seed 0", "seed: seeds are from 1 on"},
		"a seed that is none":   {"--seed first", "--seed"},
		"a seed beyond all":     {"--seed 9223372036854775808", "must be below 2^63"},
		"no schedules":          {"--schedules 0", "schedules: at least 1 is needed"},
		"too many schedules":    {"--schedules 9223372036854775808", "must be below 2^63"},
		"no mutants' schedules": {"--mutants --schedules 0", "schedules: at least 1 is needed"},
		"an unknown fault": {
			"--faults pause,flood",
			`faults: kernel: no fault is named "flood"; there are ` + strings.Join(kernel.FaultNames(), ", ") + "\n",
		},
		"none and something":       {"--faults none,pause", `no fault is named "none"`},
		"a picture of the mutants": {"--mutants --html FILE", "html: a mutant is not drawn"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done := execute(t, append([]string{"explore"}, strings.Fields(c.args)...)...)
			require.Equal(t, 2, done.status)
			require.Empty(t, done.out)
			require.Equal(t, 1, strings.Count(done.err, "\n"), done.err)
			require.True(t, strings.HasPrefix(done.err, "fencepost: "), done.err)
			require.Contains(t, done.err, c.text)
		})
	}
}

// harmless is the first of two seeds of which not even the control goes wrong
// where there are no faults.
func harmless(t *testing.T) string {
	t.Helper()
	for seed := uint64(1); seed < 100; seed++ {
		r, err := kernel.Explore(t.Context(), kernel.Plan{Seed: seed, Schedules: 2}, func(uint64) {})
		require.NoError(t, err)
		if r.ControlViolations == 0 {
			return strconv.FormatUint(seed, 10)
		}
	}
	require.FailNow(t, "there are no such seeds any more")
	return ""
}

// What the control does not break, nobody has tested.
func TestExploreShowsNothingWhereTheControlBreaksNothing(t *testing.T) {
	t.Parallel()
	args := []string{"explore", "--schedules", "2", "--seed", harmless(t), "--faults", "none"}
	done := execute(t, args...)
	require.Equal(t, 1, done.status)
	require.Empty(t, done.err, "the verdict has said it")
	require.Contains(t, done.out, "Verdict: nothing is shown.\n")
	require.NotContains(t, done.out, "as it happened")
	require.Equal(t, 1, execute(t, append(args, "--json")...).status)
}

func TestExploreWithoutTheControlSaysSo(t *testing.T) {
	t.Parallel()
	done := execute(t, "explore", "--schedules", "30", "--no-control")
	require.Zero(t, done.status, done.err)
	require.NotContains(t, done.out, "the control  ")
	require.Contains(t, done.out, "Verdict: the fence holds.\n  No rule was broken. Whether anything goes wrong")
	require.Contains(t, execute(t, "explore", "--schedules", "30", "--no-control", "--json").out, `"control_violations":0,`)
}

func TestHolds(t *testing.T) {
	t.Parallel()
	one, many := kernel.Plan{Schedules: 1}, kernel.Plan{Schedules: 2}
	alone := kernel.Plan{Schedules: 2, WithoutControl: true}
	require.NoError(t, holds(many, kernel.Report{ControlViolations: 1}))
	require.NoError(t, holds(one, kernel.Report{}))
	require.NoError(t, holds(alone, kernel.Report{}))
	require.ErrorIs(t, holds(many, kernel.Report{}), errNo)
	for _, plan := range []kernel.Plan{one, many, alone} {
		require.ErrorIs(t, holds(plan, kernel.Report{Violations: 1, ControlViolations: 1, Broken: 7}), errNo)
		require.ErrorIs(t, holds(plan, kernel.Report{Lost: 1, ControlViolations: 1, Broken: 7}), errNo)
	}
}
