package simulations_test

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations"
)

// envBroken has TestUnguarded fail as a user's test would.
const envBroken = "FENCEPOST_SIMULATIONS_TEST_BROKEN"

func TestUnguarded(t *testing.T) {
	l := &ledger{marks: blind{}}
	if os.Getenv(envBroken) != "" {
		simulations.Run(t, l.subject())
		return
	}
	var verdict *simulations.Verdict
	require.ErrorAs(t, simulations.Examine(t, l.subject()), &verdict)
	require.False(t, verdict.Toothless())
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
			require.Regexp(t, `(?m)^ +[a-z]+: [A-Z].*\n +account/42: .*\n +from ms`, again, "a rule, what broke it, a history")
		})
	}
}

func TestANameThatNoInterleavingHasFails(t *testing.T) {
	t.Parallel()
	require.Contains(t, fails(t, "TestUnguarded/plan/4_holders"), "no interleaving has this name")
}

// fails runs the tests that run names and returns what they say.
func fails(t *testing.T, run string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", "^"+run)
	cmd.Env = append(os.Environ(), envBroken+"=1", "TMPDIR="+t.TempDir()) // where the picture goes
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "%s", out)
	return string(out)
}
