package process_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/process"
)

// In every round A is stopped between its read and its write, past the end of
// its lease and past B's write. Guarded, none of its writes is accepted, and in
// the twin all are.
//
// hazard G1 W1
func TestRounds(t *testing.T) {
	t.Parallel()
	var table table
	t.Cleanup(func() { t.Log(table.String()) })
	ledger := func(t *testing.T) conf { c, _ := newLedger(t); return c }
	for name, c := range map[string]struct {
		subject, at string
		open        func(*testing.T) conf
	}{
		"PostgreSQL":             {"postgres", computed, ledger},
		"HTTP":                   {"http", computed, newService},
		"a replica of a service": {"replica", received, ledger},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := process.Run(t, process.Options{
				Subject: c.subject, Conf: c.open(t).String(), At: c.at, Rounds: testenv.Rounds(t, process.EnvRounds, 4),
			})
			table.add(r)
			requireFenced(t, r)
		})
	}
}

func requireFenced(t *testing.T, r process.Report) {
	t.Helper()
	for _, c := range []process.Counts{r.Guarded, r.Twin} {
		require.Equal(t, r.Rounds, c.Rounds)
		require.Equal(t, r.Rounds, c.Attempted, "in every round")
		require.Zero(t, c.Early)
		require.Zero(t, c.Blocked)
	}
	require.Equal(t, r.Rounds, r.Guarded.Refused)
	require.Zero(t, r.Guarded.Accepted)
	require.Zero(t, r.Guarded.Lost)
	require.Equal(t, r.Rounds, r.Twin.Accepted)
	require.Equal(t, r.Rounds, r.Twin.Lost)
}

// The number of A's steps: with as many rounds it is stopped once at each.
const postgresSteps, httpSteps = 15, 10

// idle is how long A's transaction may be idle if A is stopped inside it.
const idle = 4 * ttl

// If A is stopped at any step, also inside an admitted transaction, B does not wait for
// it: the guard evicts A. The twin does not, and B waits for A's row lock.
//
// hazard G8
func TestEveryStep(t *testing.T) {
	t.Parallel()
	c, _ := newLedger(t)
	c.Idle = idle
	r := process.Run(t, process.Options{Subject: "postgres", Conf: c.String(), Rounds: postgresSteps})
	require.Subset(t, r.Guarded.Steps, []string{"claim begin", "do", computed, "begin", "admitted", "written", "commit", "applied"})
	require.GreaterOrEqual(t, r.Rounds, len(r.Guarded.Steps))
	require.Zero(t, r.Guarded.Blocked)
	require.Zero(t, r.Guarded.Lost)
	require.NotZero(t, r.Guarded.Refused)
	require.NotZero(t, r.Twin.Blocked)
	requireStood(t, process.History(r.Guarded))
	requireStood(t, process.History(r.Twin))
}

// skew is how much the clocks of two recorders can differ. They are aligned by the wall
// clock when the second one starts, within seconds of the first, and a wall clock that is
// being adjusted gains or loses up to 0.5 ms in a second (adjtimex(2)).
const skew = 5 * time.Millisecond

// requireStood requires that no operation of A's, including renewals, ends while it is
// stopped.
func requireStood(t *testing.T, h history.History) {
	t.Helper()
	var faults, ofA []history.Op
	for _, op := range h.Ops {
		switch {
		case op.Kind == history.Fault:
			faults = append(faults, op)
		case op.Writer == "A":
			ofA = append(ofA, op)
		}
	}
	require.NotEmpty(t, faults)
	for _, fault := range faults {
		for _, op := range ofA {
			require.False(t, fault.Began+skew < op.Ended && op.Ended < fault.Ended-skew, "%v ended while A stood: %v", op, fault)
		}
	}
}

// If A is killed at any step, its unit is done or not done, and B continues.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		c, _ := newLedger(t)
		requireSurvived(t, process.Options{Subject: "postgres", Conf: c.String(), Rounds: postgresSteps})
	})
	t.Run("HTTP", func(t *testing.T) {
		t.Parallel()
		requireSurvived(t, process.Options{Subject: "http", Conf: newService(t).String(), Rounds: httpSteps})
	})
}

func requireSurvived(t *testing.T, o process.Options) {
	t.Helper()
	o.Pause = process.SIGKILL
	r, err := process.RunGuarded(t, o)
	require.NoError(t, err)
	t.Log(r)
	require.GreaterOrEqual(t, r.Rounds, len(r.Guarded.Steps))
	require.Zero(t, r.Guarded.Blocked)
	require.Zero(t, r.Guarded.Lost)
	outcomes := map[history.Outcome]int{}
	for _, op := range process.History(r.Guarded).Ops {
		if op.Kind == history.Unit && op.Writer == "A" {
			outcomes[op.Outcome]++
		}
	}
	require.NotZero(t, outcomes[history.Unknown], "A was killed in the middle of its unit: %v", outcomes)
}

// If A is stopped at a random moment, none of its stale writes is accepted.
func TestAnytime(t *testing.T)       { stopAnytime(t, 10) }
func TestStressAnytime(t *testing.T) { stopAnytime(t, 40) }

func stopAnytime(t *testing.T, rounds int) {
	t.Parallel()
	for _, pause := range []process.Pause{process.SIGSTOP, process.SIGKILL} {
		t.Run(string(pause), func(t *testing.T) {
			t.Parallel()
			c, _ := newLedger(t)
			c.Idle, c.Work = idle, ttl
			r, err := process.RunGuarded(t, process.Options{
				Subject: "postgres", Conf: c.String(), Pause: pause, At: process.Anytime, Rounds: rounds,
			})
			require.NoError(t, err)
			t.Log(r)
			require.Equal(t, rounds, r.Guarded.Rounds)
			require.Zero(t, r.Guarded.Accepted)
			require.Zero(t, r.Guarded.Lost)
			require.Zero(t, r.Guarded.Blocked)
		})
	}
}

// If Do takes the lock itself, its context ends with the lease. A twin that noticed the
// loss would never write too late, and a subject that notices it slightly too late would
// not be tested. So neither notices.
//
// hazard G1
func TestDoMayTakeTheLockItself(t *testing.T) {
	t.Parallel()
	c, _ := newLedger(t)
	// The first "begin" is that of Do's own claim.
	requireFenced(t, process.Run(t, process.Options{Subject: "re-enters", Conf: c.String(), At: "begin", Nth: 2, Rounds: 4}))
}

// A writer that is refused before its write also counts as too late.
func TestARefusalBeforeTheWriteCounts(t *testing.T) {
	t.Parallel()
	r := process.Run(t, process.Options{Subject: "http", Conf: newService(t).String(), At: "request", Rounds: 5})
	require.Equal(t, []string{"request", "request"}, requests(r.Guarded.Steps), "the first only reads")
	require.Equal(t, 5, r.Guarded.Refused)
	require.Equal(t, 5, r.Twin.Accepted)
	require.Zero(t, r.Twin.Lost, "it has read what B wrote")
}

func requests(steps []string) (found []string) {
	for _, step := range steps {
		if step == "request" {
			found = append(found, step)
		}
	}
	return found
}

// B gets the time that it needs: it is not blocked if its work takes long.
func TestWorkMayTakeItsTime(t *testing.T) {
	t.Parallel()
	c, _ := newLedger(t)
	c.Work = 4 * ttl
	requireFenced(t, process.Run(t, process.Options{Subject: "postgres", Conf: c.String(), At: computed, Rounds: 1}))
}

// Transactions of the issuer's own are not the writer's.
func TestTheIssuersStatementsAreNotTheWriters(t *testing.T) {
	t.Parallel()
	c, _ := newLedger(t)
	r := process.Run(t, process.Options{Subject: "traced issuer", Conf: c.String(), At: computed, Rounds: 5})
	requireFenced(t, r)
	require.Equal(t, []string{"acquire", "granted"}, r.Guarded.Steps[:2])
	require.Equal(t, []string{"done", "release"}, r.Guarded.Steps[len(r.Guarded.Steps)-2:])
}

// Code without a fence, and code that checks it and writes later, do not survive. If the
// check is a middleware's, its table of requests in flight does not help: B writes
// through another replica, which has its own.
//
// hazard G1 W1
func TestCodeThatDoesNotSurvive(t *testing.T) {
	t.Parallel()
	for subject, at := range map[string]string{"lock only": computed, "check": computed, "check in HTTP": received} {
		t.Run(subject, func(t *testing.T) {
			t.Parallel()
			c, _ := newLedger(t)
			_, err := process.Check(t, process.Options{Subject: subject, Conf: c.String(), At: at, Rounds: 2})
			var v *process.Verdict
			require.ErrorAs(t, err, &v)
			require.False(t, v.Vacuous())
			require.True(t, v.Breaks("order"), "%v", v)
			require.True(t, v.Breaks("once"), "%v", v)
			require.False(t, v.Breaks("mutual-exclusion"))
			require.Equal(t, 2, v.Report.Guarded.Accepted)
			require.Equal(t, 2, v.Report.Guarded.Lost)
			require.ErrorContains(t, err, "2 updates lost")
		})
	}
}

// Rounds in which no write comes too late prove nothing.
func TestRoundsThatProveNothing(t *testing.T) {
	t.Parallel()
	c, _ := newLedger(t)
	_, err := process.Check(t, process.Options{Subject: "postgres", Conf: c.String(), At: "applied", Rounds: 2})
	var v *process.Verdict
	require.ErrorAs(t, err, &v)
	require.True(t, v.Vacuous())
	require.ErrorContains(t, err, "vacuous")
	require.Equal(t, 2, v.Report.Twin.Early)
}

// Neither do rounds in which only the twin's writes come too late.
func TestRoundsWhoseGuardIsNeverPutToTheTest(t *testing.T) {
	t.Parallel()
	c, _ := newLedger(t)
	_, err := process.Check(t, process.Options{Subject: "in time", Conf: c.String(), At: computed, Rounds: 2})
	var v *process.Verdict
	require.ErrorAs(t, err, &v)
	require.True(t, v.Vacuous())
	require.Equal(t, 2, v.Report.Guarded.Early)
	require.Equal(t, 2, v.Report.Twin.Accepted)
}

func TestWhatCannotBeRun(t *testing.T) {
	t.Parallel()
	c, _ := newLedger(t)
	for name, bad := range map[string]struct {
		options process.Options
		text    string
	}{
		"a subject that is not served": {process.Options{Subject: "absent"}, `no subject "absent"`},
		"a step that A does not take":  {process.Options{Subject: "postgres", At: "lunch"}, `does not come by step "lunch" 1 times, but by ["acquire"`},
		"a subject that always fails":  {process.Options{Subject: "fails"}, "Do fails although nothing disturbs it: unknown: context deadline exceeded"},
		"no such pause":                {process.Options{Subject: "postgres", Pause: "coffee"}, `no such pause: "coffee"`},
		"a step before the first":      {process.Options{Subject: "postgres", Nth: -1}, "no step number -1"},
		"a writer that finds nothing":  {process.Options{Subject: "no server"}, "writer A is gone: exit status 1: process: open no server: no server at all"},
		"a writer that dies of itself": {process.Options{Subject: "dies", At: computed}, "writer A is gone: exit status 7: "},
		"rounds below zero":            {process.Options{Subject: "postgres", Rounds: -1}, "-1 rounds"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad.options.Conf = c.String()
			_, err := process.Check(t, bad.options)
			require.ErrorContains(t, err, bad.text)
		})
	}
}

func init() { subjects["dies"] = openDying }

// openDying ends its process in its third unit: a writer's third unit is the first to be
// stopped.
func openDying(ctx context.Context, text string) (simulations.Subject, func() error, error) {
	_, l, s, end, err := servers(ctx, text)
	units := 0
	s.Do = func(ctx context.Context) error {
		if units++; units == 3 {
			os.Exit(7)
		}
		return l.naive(ctx, nil)
	}
	s.Unguarded = s.Do
	return s, end, err
}

// table prints the figures of all rounds for the docs (`make rounds`).
type table struct {
	mu   sync.Mutex
	rows []string
}

func (t *table) add(r process.Report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = append(t.rows, fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %d | %.0f s |",
		r.Subject, r.Rounds, r.Guarded.Attempted, r.Guarded.Accepted,
		r.Twin.Attempted, r.Twin.Accepted, r.Twin.Lost, (r.Guarded.Duration+r.Twin.Duration).Seconds()))
}

func (t *table) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.Sort(t.rows)
	return "\n| resource | rounds | stale writes, guarded | accepted | stale writes, twin | accepted | updates lost | time |\n" +
		"|---|--:|--:|--:|--:|--:|--:|--:|\n" + strings.Join(t.rows, "\n")
}
