package simulations_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations"
)

// run performs tests in a process whose temporary files are the test's own.
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
	for _, said := range []string{"TestUnguarded does not survive the pause", "Broken: order", "asleep", "loses the lock", "counted 3"} {
		require.Contains(t, string(text), said)
	}
}

func TestThePictureIsAnArtifactWhereTheyAreKept(t *testing.T) {
	t.Parallel()
	temp, kept := t.TempDir(), t.TempDir()
	out, failed := run(t, temp, "-test.run", "^TestUnguarded$", "-test.artifacts", "-test.outputdir", kept)
	require.True(t, failed)
	require.Empty(t, pages(t, temp))
	found := regexp.MustCompile(`A picture of it: (.*) \(open`).FindStringSubmatch(out)
	require.NotNil(t, found, out)
	require.True(t, strings.HasPrefix(found[1], kept), found[1])
	require.FileExists(t, found[1])
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
	out, failed := run(t, temp, "-test.run", "^TestRunInMemory$")
	require.False(t, failed, out)
	entries, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestAVerdictHasItsHistory(t *testing.T) {
	t.Parallel()
	var verdict *simulations.Verdict
	require.ErrorAs(t, simulations.Examine(t, (&ledger{marks: blind{}}).subject()), &verdict)
	for _, op := range verdict.Broken[0].Ops {
		require.Contains(t, verdict.History.Ops, op)
	}
	require.Greater(t, len(verdict.History.Ops), len(verdict.Broken[0].Ops))
}
