package main

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/kernel"
)

// mistaken explores as the command does, with a mutant in the place of the code.
func mistaken(t *testing.T, mutant string, plan kernel.Plan, c exploreCmd) finished {
	t.Helper()
	all := kernel.Mutants()
	i := slices.IndexFunc(all, func(m kernel.Mutant) bool { return m.Name == mutant })
	require.NotEqual(t, -1, i, mutant)
	plan.Mutant = &all[i]
	var out, errs bytes.Buffer
	err := c.explore(t.Context(), streams{out: &out, err: &errs}, plan)
	return finished{status: status(err, &errs), out: out.String(), err: errs.String()}
}

func TestARunThatBreaksARuleIsTold(t *testing.T) {
	t.Parallel()
	faults := kernel.Pause | kernel.Delay
	done := mistaken(t, "strict less-than", kernel.Plan{Seed: 3, Schedules: 20, Faults: faults}, exploreCmd{})
	require.Equal(t, 1, done.status)
	require.Empty(t, done.err, "the verdict has said it")
	for _, said := range []string{ // in this order
		"20 schedules, seeds 3 to 22\n", "rules broken in 20 schedules\n",
		"Verdict: the fence does NOT hold.\n  The first seed that shows it is 3.\n\n",
		"reason: Nothing is refused unless a greater number was given to somebody, ",
		"     from ms       to ms  who  ",
		"  refused, counted 0\n",
		"\nSeed 3, guarded, as it happened\n\nfrom ms  ",
	} {
		_, rest, found := strings.Cut(done.out, said)
		require.True(t, found, "%q is not in, or not after what should be before it:\n%s", said, done.out)
		done.out = rest
	}
	require.Greater(t, strings.Count(done.out, "\n"), 20, "everything that happened")
	require.True(t, strings.HasSuffix(done.out, "\n\nOnce more: fencepost explore --seed 3 --schedules 1 --faults pause,delay\n"))
	require.NotContains(t, done.out, "\n\n\n")
}

func TestTheReplayOfARunThatBreaksARuleBreaksItAgain(t *testing.T) {
	t.Parallel()
	const mutant, replay = "number is the clock", "\nOnce more: fencepost explore --seed "
	many := mistaken(t, mutant, kernel.Plan{Seed: 1, Schedules: 100, Faults: kernel.All}, exploreCmd{})
	require.Regexp(t, regexp.QuoteMeta(replay)+`\d+ --schedules 1\n$`, many.out, "all faults need no naming")
	report := mistaken(t, mutant, kernel.Plan{Seed: 1, Schedules: 100, Faults: kernel.All}, exploreCmd{JSON: true})
	seed := uint64(objects(t, report.out)[0]["broken_seed"].(float64))
	one := mistaken(t, mutant, kernel.Plan{Seed: seed, Schedules: 1, Faults: kernel.All}, exploreCmd{})
	require.Equal(t, 1, one.status)
	_, told, _ := strings.Cut(many.out, "\n\n")
	told, _, _ = strings.Cut(told, replay)
	require.Equal(t, told, one.out)
}

// An update can be lost that nobody was told of. No rule of histories is broken
// then, and it is a lost update all the same.
func TestALossThatBreaksNoRuleIsTold(t *testing.T) {
	t.Parallel()
	const mutant = "check, then write"
	for seed := uint64(1); seed <= 200; seed++ {
		plan := kernel.Plan{Seed: seed, Schedules: 1, Faults: kernel.All}
		report := objects(t, mistaken(t, mutant, plan, exploreCmd{JSON: true}).out)[0]
		if report["lost"].(float64) == 0 || report["violations"].(float64) > 0 {
			continue
		}
		require.EqualValues(t, seed, report["broken_seed"])
		done := mistaken(t, mutant, plan, exploreCmd{})
		require.Equal(t, 1, done.status)
		require.Regexp(t, `^lost: \d+ of what was written, with \d+ units acknowledged\n\nSeed \d+, guarded, as it happened\n`, done.out)
		return
	}
	require.FailNow(t, "there is no such seed any more")
}
