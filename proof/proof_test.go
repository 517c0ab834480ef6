package proof_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every state of the model is visited, and no promise is broken in any.
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

// An issuer that forgot is healed by somebody who keeps trying, under weak
// fairness: who can always go on does so some day.
func TestHealingGivesProgress(t *testing.T) {
	t.Parallel()
	settings := define("GRANTS=12", "FORGETS=1", "FAULTS=2")
	if os.Getenv("FENCEPOST_PROOF") != "" {
		settings = define("GRANTS=12", "FORGETS=1", "FAULTS=3")
	}
	r := search(t, settings, cycles, "-a", "-f", "-w19")
	requireExhaustive(t, r)
	require.Contains(t, r.text, "acceptance   cycles \t+ (fairness enabled)")
	t.Logf("%v: %s states, to depth %s", settings, r.states, r.depth)

	twin := search(t, define("GRANTS=12", "FORGETS=1", "FAULTS=0", "NO_HEALING"), cycles, "-a", "-f", "-w19")
	require.Equal(t, "acceptance cycle", twin.broken, twin.text)
	tell(t, twin, "without healing nobody is served")
}

// A variant that lacks one thing breaks the promise that this is for.
func TestEachBrokenVariantBreaksItsPromise(t *testing.T) {
	t.Parallel()
	for _, b := range broken {
		t.Run(b.variant+" "+b.promise, func(t *testing.T) {
			t.Parallel()
			r := search(t, define(b.variant, "BREAKS="+b.promise, b.settings), shortest, "-w18")
			require.Equal(t, b.promise, r.broken, r.text)
			tell(t, r, b.variant+" breaks "+b.promise)
		})
	}
}

// Where nothing happens, anything can be promised.
func TestWhatThePromisesAreAboutHappens(t *testing.T) {
	t.Parallel()
	for _, h := range reached {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			r := search(t, define("NEVER="+h.name, h.settings), shortest, "-w18")
			require.Equal(t, h.name, r.broken, r.text)
			tell(t, r, h.name)
		})
	}
}

// requireExhaustive refuses a search that has left something out.
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
