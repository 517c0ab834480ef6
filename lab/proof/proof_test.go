package proof_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every state of the model is visited, and no promise is broken in any state.
func TestEveryPromiseHoldsInEveryState(t *testing.T) {
	t.Parallel()
	for _, s := range sound {
		if s.long && os.Getenv("FENCEPOST_PROOF") == "" {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			r := search(t, define(s.settings), exhaustive, "-w21")
			requireExhaustive(t, r)
			t.Logf("%s: %s states, to depth %s", s.settings, r.states, r.depth)
		})
	}
}

// A holder that keeps trying recovers an issuer that forgot. This assumes weak fairness:
// a process that can always continue does so at some time.
func TestRecoveryGivesProgress(t *testing.T) {
	t.Parallel()
	settings := define("GRANTS=12", "FORGETS=1", "FAULTS=2")
	if os.Getenv("FENCEPOST_PROOF") != "" {
		settings = define("GRANTS=12", "FORGETS=1", "FAULTS=3")
	}
	r := search(t, settings, cycles, "-a", "-f", "-w19")
	requireExhaustive(t, r)
	require.Contains(t, r.text, "acceptance   cycles \t+ (fairness enabled)")
	t.Logf("%v: %s states, to depth %s", settings, r.states, r.depth)

	twin := search(t, define("GRANTS=12", "FORGETS=1", "FAULTS=0", "NO_RECOVERY"), cycles, "-a", "-f", "-w19")
	require.Equal(t, "acceptance cycle", twin.broken, twin.text)
	logTrail(t, twin, "without recovery no holder is served")
}

// A variant that lacks one mechanism breaks the promise that depends on it.
func TestEachBrokenVariantBreaksItsPromise(t *testing.T) {
	t.Parallel()
	for _, b := range broken {
		t.Run(b.variant+" "+b.promise, func(t *testing.T) {
			t.Parallel()
			r := search(t, define(b.variant, "BREAKS="+b.promise, b.settings), shortest, "-w18")
			require.Equal(t, b.promise, r.broken, r.text)
			logTrail(t, r, b.variant+" breaks "+b.promise)
		})
	}
}

// If the events of a promise never happen, the promise proves nothing.
func TestTheEventsOfThePromisesHappen(t *testing.T) {
	t.Parallel()
	for _, h := range reached {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			r := search(t, define("NEVER="+h.name, h.settings), shortest, "-w18")
			require.Equal(t, h.name, r.broken, r.text)
			logTrail(t, r, h.name)
		})
	}
}

// requireExhaustive fails for a search that has left out a part of the states.
func requireExhaustive(t *testing.T, r result) {
	t.Helper()
	if r.broken != "" {
		require.Fail(t, "a promise is broken: "+r.broken, "%s\n%s", r.story(), r.text)
	}
	require.Contains(t, r.text, "Full statespace search for:")
	require.Regexp(t, `errors: 0\b`, r.text)
	for _, partial := range []string{"max search depth too small", "out of memory", "Search not completed", "Bit statespace", "Hash-Compact", "not reached"} {
		require.NotContains(t, r.text, partial)
	}
	require.NotEmpty(t, r.states)
}

// sound are the searches that must find nothing. In each, three holders are alive at a
// time. They differ in what may happen, since all of it together takes minutes. The long
// ones are for `make proof`.
var sound = []struct {
	name, settings string
	long           bool
}{
	{"the issuer forgets", "FORGETS=1 WRITES=2", false},
	{"the mark is pruned", "PRUNES=1", false},
	{"the issuer forgets, its clock jumps, and the mark is pruned", "GRANTS=3 FORGETS=1 JUMPS=1 PRUNES=1", false},
	{"requests come twice", "GRANTS=3 COPIES=2 WRITES=2", false},
	{"the grant claims", "CLAIMS_IN_GRANT FORGETS=1", false},
	{"the guard mints, under any lock", "MINT", false},

	{"the issuer forgets, of five", "GRANTS=5 FORGETS=1", true},
	{"the issuer forgets twice", "FORGETS=2", true},
	{"the issuer forgets, and the mark is pruned, of four", "FORGETS=1 PRUNES=1", true},
	{"everything, of three", "GRANTS=3 FORGETS=1 JUMPS=1 PRUNES=1 COPIES=1", true},
	{"the grant claims, and the mark is pruned", "GRANTS=3 CLAIMS_IN_GRANT FORGETS=1 PRUNES=1 COPIES=1", true},
	{"the guard mints, and the mark is pruned", "MINT PRUNES=1", true},
}

// broken are the variants, each with the promise that it must break.
var broken = []struct{ variant, promise, settings string }{
	{"NO_GUARD", "in_order", ""},
	{"NO_GUARD", "no_update_lost", ""},
	{"NO_CLAIM", "no_update_lost", ""}, // the fence is on the write only
	{"READ_BEFORE_CLAIM", "no_update_lost", ""},
	{"EQUALITY", "refused_for_a_reason", ""},
	{"LESS", "refused_for_a_reason", ""},
	{"LESS_OR_EQUAL", "one_holder", "FORGETS=1"},
	{"CHECK_THEN_WRITE", "in_order", ""},
	{"CHECK_THEN_WRITE", "no_update_lost", ""},
	{"ANSWER_BEFORE_COMMIT", "acknowledged_is_applied", ""},
	{"FORGOTTEN_MARK", "in_order", ""},
	{"PRUNE_WITHOUT_FLOOR", "in_order", "PRUNES=1"},
	{"PRUNE_WITHOUT_FLOOR", "marks_never_fall", "PRUNES=1"},
	{"FLOOR_AT_THE_MARK", "one_holder", "GRANTS=3 PRUNES=1 FORGETS=1"},
	{"NUMBER_BEFORE_LOCK", "numbers_rise", ""},
	{"RELEASE_BY_ANYBODY", "one_owner", ""},
	{"RENEW_ACQUIRES", "one_owner", ""},
	{"RAISE_ACQUIRES", "one_owner", ""},
	{"RAISE_LOWERS", "numbers_rise", ""},
	{"RAISE_TWO_STEPS", "numbers_rise", "GRANTS=5 FORGETS=1 JUMPS=1"},
	{"RAISE_UNCLASSIFIED", "raised_what_forgot", ""},
	{"RECOVERY_RUNS_AGAIN", "applied_once", "GRANTS=3 WRITES=2"},
	{"HOLDER_OF_THE_PROCESS", "no_update_lost", ""},
	{"READ_AGAIN", "no_update_lost", ""},
	{"APPLIED_TWICE", "applied_once", "COPIES=1"},
	{"MARK_BEFORE_MEMORY", "refused_leaves_no_trace", "COPIES=1"},
}

// reached are claims that something never happens. The search must refute them.
var reached = []struct{ name, settings string }{
	{"stale_claim_refused", ""},
	{"stale_write_refused", ""},
	{"late_write_refused", ""},
	{"late_write_applied", ""},
	{"late_copy_after_successor", "COPIES=1"},
	{"collision_refused", "FORGETS=1"},
	{"refused_by_the_floor", "PRUNES=1"},
	{"admitted_above_the_floor", "PRUNES=1"},
	{"recovered", "FORGETS=1"},
	{"old_owner_refused", "FORGETS=1"},
	{"lost_though_it_lives", "GRANTS=5 FORGETS=1"},
}

// define makes flags from settings.
func define(settings ...string) []string {
	var flags []string
	for _, setting := range strings.Fields(strings.Join(settings, " ")) {
		flags = append(flags, "-D"+setting)
	}
	return flags
}
