package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/lab/dst"
)

// mutantsOf parses the output of `explore --mutants --json`, sorted as the mutants are.
func mutantsOf(t *testing.T, done finished) mutantResults {
	t.Helper()
	require.Empty(t, done.err)
	var all mutantResults
	require.NoError(t, json.Unmarshal([]byte(done.out), &all))
	mutants, survivors := dst.Mutants(), 0
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
	done := execute(t, "--mutants", "--json")
	require.Zero(t, done.status, done.out)
	all := mutantsOf(t, done)
	require.Zero(t, all.Survivors)
	for _, d := range all.Mutants {
		require.LessOrEqual(t, d.Seed, uint64(100), d.Name)
	}
	requireTable(t, all)
}

func TestTheJSONOfMutantsHasItsDocumentedKeys(t *testing.T) {
	t.Parallel()
	done := execute(t, "--mutants", "--schedules", "2", "--json")
	all := objects(t, done.out)
	require.Len(t, all, 1)
	require.Equal(t, []string{"mutants", "survivors"}, slices.Sorted(maps.Keys(all[0])))
	first := all[0]["mutants"].([]any)[0].(map[string]any)
	require.Subset(t, []string{"killed_by_seed", "name", "place", "rule", "took_ms"}, slices.Collect(maps.Keys(first)))
	require.Subset(t, slices.Collect(maps.Keys(first)), []string{"killed_by_seed", "name", "place", "took_ms"})
}

func TestSurvivorsArePrinted(t *testing.T) {
	t.Parallel()
	done := execute(t, "--mutants", "--faults", "delay", "--schedules", "2", "--json")
	require.Equal(t, 1, done.status)
	all := mutantsOf(t, done)
	require.Positive(t, all.Survivors)
	require.Less(t, all.Survivors, len(all.Mutants))
	text := mutantTable(dst.Plan{Schedules: 2}, all, cli.Style{})
	require.Equal(t, all.Survivors, strings.Count(text, "  survives"))
	require.Equal(t, len(all.Mutants)-all.Survivors, strings.Count(text, " ms\n"))
	require.Regexp(t, `\n\nVerdict: \d+ of \d+ mutants survive 2 seeds\.\n$`, text)
	all.Survivors = 0
	require.Regexp(t, `\n\nVerdict: all \d+ mutants were found\.\n$`, mutantTable(dst.Plan{}, all, cli.Style{}))
}

// mistaken explores as the command does, with a mutant in place of the production code.
func mistaken(t *testing.T, mutant string, plan dst.Plan, c exploreCmd) finished {
	t.Helper()
	all := dst.Mutants()
	i := slices.IndexFunc(all, func(m dst.Mutant) bool { return m.Name == mutant })
	require.NotEqual(t, -1, i, mutant)
	plan.Mutant = &all[i]
	var out, errs bytes.Buffer
	err := c.explore(t.Context(), cli.Streams{Out: &out, Err: &errs}, plan)
	return finished{status: status(err, cli.Streams{Err: &errs}), out: out.String(), err: errs.String()}
}

func TestARunThatBreaksARuleIsPrinted(t *testing.T) {
	t.Parallel()
	faults := dst.Pause | dst.Delay
	done := mistaken(t, "strict less-than", dst.Plan{Seed: 3, Schedules: 20, Faults: faults}, exploreCmd{})
	require.Equal(t, 1, done.status)
	require.Empty(t, done.err, "the verdict is enough")
	for _, said := range []string{ // in this order
		"20 schedules, seeds 3 to 22\n", "rules broken in 20 schedules\n",
		"Verdict: the fence does NOT hold.\n  The first seed that shows it is 3.\n\n",
		"spurious-refusal: Nothing is refused unless a greater number was given ",
		"     from ms       to ms  who  ",
		"  refused, counted 0\n",
		"\nSeed 3, guarded, as it happened\n\nfrom ms  ",
	} {
		_, rest, found := strings.Cut(done.out, said)
		require.True(t, found, "%q is missing or out of order:\n%s", said, done.out)
		done.out = rest
	}
	require.Greater(t, strings.Count(done.out, "\n"), 20, "the whole history")
	require.True(t, strings.HasSuffix(done.out, "\n\nOnce more: go run -C lab ./explore --seed 3 --schedules 1 --faults pause,delay\n"))
	require.NotContains(t, done.out, "\n\n\n")
}

func TestTheReplayOfARunThatBreaksARuleBreaksItAgain(t *testing.T) {
	t.Parallel()
	const mutant, replay = "number is the clock", "\nOnce more: go run -C lab ./explore --seed "
	many := mistaken(t, mutant, dst.Plan{Seed: 1, Schedules: 100, Faults: dst.All}, exploreCmd{})
	require.Regexp(t, regexp.QuoteMeta(replay)+`\d+ --schedules 1\n$`, many.out, "all faults need no flag")
	report := mistaken(t, mutant, dst.Plan{Seed: 1, Schedules: 100, Faults: dst.All}, exploreCmd{JSON: true})
	seed := uint64(objects(t, report.out)[0]["broken_seed"].(float64))
	one := mistaken(t, mutant, dst.Plan{Seed: seed, Schedules: 1, Faults: dst.All}, exploreCmd{})
	require.Equal(t, 1, one.status)
	_, printed, _ := strings.Cut(many.out, "\n\n")
	printed, _, _ = strings.Cut(printed, replay)
	require.Equal(t, printed, one.out)
}

// An update can be lost that was never acknowledged. That breaks no rule of histories,
// and is a lost update nevertheless.
func TestALossThatBreaksNoRuleIsPrinted(t *testing.T) {
	t.Parallel()
	const mutant = "check, then write"
	for seed := uint64(1); seed <= 200; seed++ {
		plan := dst.Plan{Seed: seed, Schedules: 1, Faults: dst.All}
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
	require.FailNow(t, "no such seed")
}
