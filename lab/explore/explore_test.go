package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/lab/dst"
)

// asCommand is the variable that makes this test binary the command.
const asCommand = "FENCEPOST_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	leaktest.Main(m)
}

// finished is the result of a run.
type finished struct {
	out, err string
	status   int
}

func execute(t *testing.T, args ...string) finished {
	t.Helper()
	var out, errs bytes.Buffer
	status := run(args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
	return finished{out: out.String(), err: errs.String(), status: status}
}

// objects parses the lines of text, each a JSON object.
func objects(t *testing.T, text string) (list []map[string]any) {
	t.Helper()
	for line := range strings.Lines(text) {
		var object map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &object), line)
		list = append(list, object)
	}
	return list
}

func requireOnly(t *testing.T, folder string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	var found []string
	for _, entry := range entries {
		found = append(found, entry.Name())
	}
	require.Equal(t, names, found)
}

func TestExploreRefusesBadFlags(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ args, text string }{
		"no seed":               {"--seed 0", "seed: must be at least 1"},
		"a seed that is none":   {"--seed first", "--seed"},
		"a seed beyond all":     {"--seed 9223372036854775808", "below 2^63"},
		"no schedules":          {"--schedules 0", "schedules: must be at least 1"},
		"too many schedules":    {"--schedules 9223372036854775808", "below 2^63"},
		"no mutants' schedules": {"--mutants --schedules 0", "schedules: must be at least 1"},
		"an unknown fault": {
			"--faults pause,flood",
			`faults: dst: no fault is named "flood"; there are ` + strings.Join(dst.FaultNames(), ", ") + "\n",
		},
		"none and something":       {"--faults none,pause", `no fault is named "none"`},
		"a picture of the mutants": {"--mutants --html FILE", "html: not supported with --mutants"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done := execute(t, strings.Fields(c.args)...)
			require.Equal(t, 2, done.status)
			require.Empty(t, done.out)
			require.Equal(t, 1, strings.Count(done.err, "\n"), done.err)
			require.True(t, strings.HasPrefix(done.err, "explore: "), done.err)
			require.Contains(t, done.err, c.text)
		})
	}
}

// harmless returns the first of two seeds whose control breaks no rule if there are no
// faults.
func harmless(t *testing.T) string {
	t.Helper()
	for seed := uint64(1); seed < 100; seed++ {
		r, err := dst.Explore(t.Context(), dst.Plan{Seed: seed, Schedules: 2}, func(uint64) {})
		require.NoError(t, err)
		if r.ControlViolations == 0 {
			return strconv.FormatUint(seed, 10)
		}
	}
	require.FailNow(t, "no such seeds")
	return ""
}

// A run whose control breaks no rule tests nothing.
func TestExploreShowsNothingIfTheControlBreaksNothing(t *testing.T) {
	t.Parallel()
	args := []string{"--schedules", "2", "--seed", harmless(t), "--faults", "none"}
	done := execute(t, args...)
	require.Equal(t, 1, done.status)
	require.Empty(t, done.err, "the verdict is enough")
	require.Contains(t, done.out, "Verdict: nothing is shown.\n")
	require.NotContains(t, done.out, "as it happened")
	require.Equal(t, 1, execute(t, append(args, "--json")...).status)
}

func TestExploreWithoutTheControlSaysSo(t *testing.T) {
	t.Parallel()
	done := execute(t, "--schedules", "30", "--no-control")
	require.Zero(t, done.status, done.err)
	require.NotContains(t, done.out, "the control  ")
	require.Contains(t, done.out, "Verdict: the fence holds.\n  No rule was broken. Whether anything goes wrong")
	require.Contains(t, execute(t, "--schedules", "30", "--no-control", "--json").out, `"control_violations":0,`)
}

func TestHolds(t *testing.T) {
	t.Parallel()
	one, many := dst.Plan{Schedules: 1}, dst.Plan{Schedules: 2}
	alone := dst.Plan{Schedules: 2, WithoutControl: true}
	require.NoError(t, holds(many, dst.Report{ControlViolations: 1}))
	require.NoError(t, holds(one, dst.Report{}))
	require.NoError(t, holds(alone, dst.Report{}))
	require.ErrorIs(t, holds(many, dst.Report{}), cli.ErrNo)
	for _, plan := range []dst.Plan{one, many, alone} {
		require.ErrorIs(t, holds(plan, dst.Report{Violations: 1, ControlViolations: 1, Broken: 7}), cli.ErrNo)
		require.ErrorIs(t, holds(plan, dst.Report{Lost: 1, ControlViolations: 1, Broken: 7}), cli.ErrNo)
	}
}

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
	done := execute(t, "--schedules", "100", "--seed", "7", "--json")
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
	require.Equal(t, done.out, execute(t, "--schedules", "100", "--seed", "7", "--json").out)
}

func TestExploreOfSomeFaultsPlaysOthersThanOfAll(t *testing.T) {
	t.Parallel()
	few := execute(t, "--schedules", "100", "--faults", "pause,suspend", "--json")
	require.Zero(t, few.status, few.err)
	all := execute(t, "--schedules", "100", "--json")
	require.NotEqual(t, explorations(t, all.out)["acknowledged"], explorations(t, few.out)["acknowledged"])
	same := execute(t, "--schedules", "100", "--faults", "suspend", "--faults", "pause", "--json")
	require.Equal(t, few.out, same.out, "whatever their order")
}

func TestOneScheduleIsPrintedFromBeginningToEnd(t *testing.T) {
	t.Parallel()
	done := execute(t, "--seed", "5", "--schedules", "1")
	require.Zero(t, done.status, done.err)
	require.Empty(t, done.err)
	heading, table, found := strings.Cut(done.out, "\n\n")
	require.True(t, found)
	require.Equal(t, "Seed 5, guarded, as it happened", heading)
	run, err := new(dst.Player).Play(5, dst.Setting{Faults: dst.All})
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(table, "\n"), "\n")
	require.Len(t, lines, 1+len(run.History.Ops), "one line for each op")
	require.Regexp(t, `^from ms +to ms +who +resource +what +token +outcome$`, lines[0])
	last := -1.
	for _, line := range lines[1:] {
		began, err := strconv.ParseFloat(strings.Fields(line)[0], 64)
		require.NoError(t, err)
		require.GreaterOrEqual(t, began, last, "sorted by their beginning")
		last = began
	}
	require.Equal(t, done.out, execute(t, "--seed", "5", "--schedules", "1").out)
}

func TestOneScheduleDoesNotJudgeItsControl(t *testing.T) {
	t.Parallel()
	done := execute(t, "--seed", harmless(t), "--schedules", "1", "--faults", "none", "--json")
	require.Zero(t, done.status, done.err)
	require.Contains(t, done.out, `"control_violations":0`)
}

func TestTheCounterDrawsAHundredTimesAndLeavesNothing(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := newCounter(&out, 64_000, false)
	require.False(t, c.Drawn, "that is no terminal")
	c.Drawn = true
	for done := uint64(64); done <= 64_000; done += 64 {
		c.at(done)
	}
	c.Clear()
	lines := strings.Split(strings.TrimPrefix(out.String(), "\r"), "\r")
	require.Len(t, lines, 102)
	require.Equal(t, "640 of 64000 schedules", strings.TrimSpace(lines[0]))
	require.Equal(t, "64000 of 64000 schedules", strings.TrimSpace(lines[99]))
	require.Empty(t, strings.TrimSpace(lines[100])+lines[101])
}

func TestTheCounterIsSilentWithoutATerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := newCounter(&out, 1, false)
	c.at(1)
	c.Clear()
	require.Empty(t, out.String())
}
