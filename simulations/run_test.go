package simulations_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/token/memtoken"
)

// envBroken makes TestUnguarded fail like a user's test.
const envBroken = "FENCEPOST_SIMULATIONS_TEST_BROKEN"

func TestUnguarded(t *testing.T) {
	l := &ledger{marks: blind{}}
	if os.Getenv(envBroken) != "" {
		simulations.Run(t, untilFound(l.subject()))
		return
	}
	var verdict *simulations.Verdict
	require.ErrorAs(t, simulations.Check(t, untilFound(l.subject())), &verdict)
	require.False(t, verdict.Vacuous())
}

func TestRunFailsWithAVerdictThatCanBeHadAgain(t *testing.T) {
	t.Parallel()
	const unguarded = "TestUnguarded"
	all := fails(t, unguarded+"$")
	for pattern, name := range map[string]string{
		"an interleaving": `TestUnguarded/plan/\S+/A_wakes`,
		"a random one":    `TestUnguarded/random/seed_\d+`,
	} {
		t.Run(pattern, func(t *testing.T) {
			t.Parallel()
			found := regexp.MustCompile(`--- FAIL: (` + name + `\S*)`).FindStringSubmatch(all)
			require.NotNil(t, found, all)
			again := fails(t, found[1]+"$")
			require.Contains(t, again, "--- FAIL: "+found[1])
			performed := regexp.MustCompile(`=== RUN   \S+/(A_wakes|A_crashes|seed_)`).FindAllString(again, -1)
			require.Len(t, performed, 1, "nothing else was performed")
			require.Regexp(t, `(?m)^ +[a-z]+: [A-Z].*\n +account/42: .*\n +expected: .*\n +from ms`, again, "a rule, what broke it, what was expected, a history")
		})
	}
}

func TestANameThatNoInterleavingHasFails(t *testing.T) {
	t.Parallel()
	require.Contains(t, fails(t, "TestUnguarded/plan/4_holders"), "no interleaving has this name")
}

// fails runs the tests with that name and returns their output.
func fails(t *testing.T, run string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", "^"+run)
	cmd.Env = append(os.Environ(), envBroken+"=1", "TMPDIR="+t.TempDir()) // the directory of the picture
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "%s", out)
	return string(out)
}

// run runs tests in a process with its own directory for temporary files.
func run(t *testing.T, temp string, args ...string) (out string, failed bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), envBroken+"=1", "TMPDIR="+temp)
	text, err := cmd.CombinedOutput()
	return string(text), err != nil
}

func pages(t *testing.T, folder string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, "*.html"))
	require.NoError(t, err)
	return found
}

func TestTheFirstInterleavingThatFailsIsDrawn(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	out, failed := run(t, temp, "-test.run", "^TestUnguarded$")
	require.True(t, failed)
	require.Contains(t, out, "--- FAIL: TestUnguarded/random/seed_", "a random one fails too")
	found := pages(t, temp)
	require.Len(t, found, 1, "and the first is drawn")
	require.Contains(t, out, "A picture of it: "+found[0]+" (open it in a browser)\n")
	require.True(t, strings.HasPrefix(filepath.Base(found[0]), "TestUnguarded_plan_2_holders_A_sleeps_at_"), found[0])
	text, err := os.ReadFile(found[0])
	require.NoError(t, err)
	name := regexp.MustCompile(`--- FAIL: (TestUnguarded/plan/\S+)`).FindStringSubmatch(out)[1]
	require.Contains(t, string(text), "go test -run &#39;"+name+"&#39;")
	for _, said := range []string{"TestUnguarded does not survive the pause", "Broken: order", "asleep", "loses the lock", "counted 3",
		"<b>Likely:</b> no guard at all: ", " Expected: ", "should have been refused: the mark was at least <i"} {
		require.Contains(t, string(text), said)
	}
}

func TestWithoutAPictureTheVerdictStands(t *testing.T) {
	t.Parallel()
	out, failed := run(t, filepath.Join(t.TempDir(), "none"), "-test.run", "^TestUnguarded$")
	require.True(t, failed)
	require.Regexp(t, `simulations: 2_holders/\S+\n +order: No write is accepted below one[^Z]*There is no picture of it: `, out)
}

func TestWhatSurvivesIsNotDrawn(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	out, failed := run(t, temp, "-test.run", "^TestWhatSurvivesPasses$/^in_memory$")
	require.False(t, failed, out)
	entries, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// TestUnseen fails like a user's test whose driver has no tracer.
func TestUnseen(t *testing.T) {
	s := (&ledger{marks: new(guard.Memory)}).subject()
	s.Budget = 50 * time.Millisecond
	if os.Getenv(envBroken) != "" {
		s.Unseen = ""
	}
	simulations.Run(t, s)
}

func TestAPassThatDidNotSeeAllFailsUnlessThereIsAReason(t *testing.T) {
	t.Parallel()
	const gap = "no tracer: writes outside the guard were not observed. Add that of your driver in the test: config.ConnConfig.Tracer = pgxpoint.Tracer{}, "
	require.Contains(t, fails(t, "TestUnseen$"), "- "+gap)
	require.NotContains(t, fails(t, "TestUnseen/plan/4_holders"), "- "+gap, "nothing was performed")

	s := (&ledger{marks: new(guard.Memory)}).subject()
	require.NoError(t, checkInBubble(t, s))
	s.Unseen = ""
	require.ErrorContains(t, checkInBubble(t, s), gap)
	s.Do = func(context.Context) error { return errOutOfOrder }
	require.NotContains(t, checkInBubble(t, s).Error(), gap, "another error comes first")
}

func TestAVerdictHasItsHistory(t *testing.T) {
	t.Parallel()
	var verdict *simulations.Verdict
	require.ErrorAs(t, checkInBubble(t, untilFound((&ledger{marks: blind{}}).subject())), &verdict)
	for _, op := range simulations.Violations(verdict)[0].Ops {
		require.Contains(t, simulations.History(verdict).Ops, op)
	}
	require.Greater(t, len(simulations.History(verdict).Ops), len(simulations.Violations(verdict)[0].Ops))
}

func TestAnIncompleteSubjectIsRefused(t *testing.T) {
	t.Parallel()
	for says, spoil := range map[string]func(*simulations.Subject){
		"neither an Issuer nor Expire": func(s *simulations.Subject) { s.Issuer = nil },
		"neither Do nor DoOnce":        func(s *simulations.Subject) { s.Do = nil },
		"DoOnce, and also Do or":       func(s *simulations.Subject) { s.DoOnce = func(context.Context, string) error { return nil } },
		"DoOnce, and also Do or Unguarded": func(s *simulations.Subject) {
			s.Do, s.DoOnce, s.Unguarded = nil, func(context.Context, string) error { return nil }, s.Do
		},
		"no Count":                func(s *simulations.Subject) { s.Count = nil },
		"negative duration":       func(s *simulations.Subject) { s.Budget = -time.Second },
		"has a negative duration": func(s *simulations.Subject) { s.Limit = -time.Second },
		"resource":                func(s *simulations.Subject) { s.Resource = "" },
		"Count: out of order":     func(s *simulations.Subject) { s.Count = broken },
		"nothing disturbs it, 10 times: out of order": func(s *simulations.Subject) {
			s.Do = func(context.Context) error { return errOutOfOrder }
		},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			s := (&ledger{marks: new(guard.Memory)}).subject()
			spoil(&s)
			err := checkInBubble(t, s)
			require.ErrorContains(t, err, says)
			require.NotErrorAs(t, err, new(*simulations.Verdict))
		})
	}
}

// checkInBubble checks a subject in memory in fake time, which a slow machine does not
// delay.
func checkInBubble(t *testing.T, s simulations.Subject) (err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { err = simulations.Check(t, s) })
	return err
}

var errOutOfOrder = errors.New("out of order")

func broken(context.Context) (int, error) { return 0, errOutOfOrder }

// A Hold of Do takes the kit's lease, or nests in it. A Do that uses another issuer gets an
// error, and so does one that does not take the lock although it should.
func TestAHoldByAnotherIssuerIsForeign(t *testing.T) {
	t.Parallel()
	l := &ledger{marks: new(guard.Memory)}
	s := l.subject()
	other := &lock.Locker{Issuer: new(memtoken.Issuer), DangerouslyWithoutClaim: true}
	s.Do = func(ctx context.Context) error { return other.Hold(ctx, resource, l.Do) }
	for _, s.Holds = range []bool{false, true} {
		require.ErrorIs(t, checkInBubble(t, s), lock.ErrNotLeased)
	}
	s.Do = func(context.Context) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.units++
		return nil
	}
	require.ErrorContains(t, checkInBubble(t, s), `Do does not take the lock "account/42"`)
}

func TestAWriterThatNeverEndsIsNamed(t *testing.T) {
	t.Parallel()
	require.Contains(t, simulations.Stuck("B", "acquire", "granted"), "B has not ended for more than 1m0s; its steps: acquire, granted")
}

func TestADoThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	for says, end := range map[string]func(){
		"A panicked: out of order":        func() { panic(errOutOfOrder) },
		"A ended its goroutine, as t.Fai": runtime.Goexit,
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			l := &ledger{marks: new(guard.Memory)}
			s := l.subject()
			var units atomic.Int64
			s.Do = func(ctx context.Context) error {
				if units.Add(1) == 9 {
					end()
				}
				return l.Do(ctx)
			}
			err := checkInBubble(t, untilFound(s))
			require.ErrorContains(t, err, "2_holders/A_sleeps_at_")
			require.ErrorContains(t, err, says)
			require.ErrorContains(t, err, "its steps: acquire, granted, claimed, do")
			require.NotErrorAs(t, err, new(*simulations.Verdict))
			require.Equal(t, says[2:10] == "panicked", errors.Is(err, errOutOfOrder))
		})
	}
}

func TestAVerdictEndsWithWhatIsLikely(t *testing.T) {
	t.Parallel()
	v := simulations.NewVerdict(simulations.Verdict{
		Interleaving: "plan", Err: errors.New("so it said"),
	}, history.Violation{Rule: history.Rules()[0], Resource: "account/42", Why: "So.", Expected: "Not so."})
	plain := v.Error()
	require.Contains(t, plain, "\naccount/42: So.\nexpected: Not so.\n")
	require.NotContains(t, plain, "Likely")
	v.LikelyCauses = []string{"write over the pool: the first.", "the second."}
	require.Equal(t, plain+"\nLikely: write over the pool: the first.\nLikely: the second.", v.Error())
	vacuous := &simulations.Verdict{Interleaving: "plan", LikelyCauses: []string{"the third."}}
	require.Regexp(t, `^simulations: vacuous [^\n]*\nLikely: the third\.$`, vacuous.Error())
}
