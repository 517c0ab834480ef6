package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// asCommand turns this test binary into the command: what runs is main, with
// everything linked that the command has, and the race detector if the tests
// have it.
const asCommand = "FENCEPOST_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// command prepares a run whose temporary files are the test's own.
func command(t *testing.T, args ...string) (cmd *exec.Cmd, temp string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	temp = t.TempDir()
	cmd = exec.Command(self, args...)
	// Under the race detector a process sleeps for a second when it exits, unless
	// told otherwise.
	cmd.Env = append(os.Environ(), asCommand+"=1", "TMPDIR="+temp, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	return cmd, temp
}

// finished is what a run left.
type finished struct {
	out, err string
	status   int
	temp     string
}

func execute(t *testing.T, args ...string) finished {
	t.Helper()
	cmd, temp := command(t, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err != nil {
		require.IsType(t, &exec.ExitError{}, err)
	}
	return finished{out: out.String(), err: errs.String(), status: cmd.ProcessState.ExitCode(), temp: temp}
}

func TestStatusOfWhatCannotBeRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args string
		text string
	}{
		"no command":            {"", `expected one of "simulate", "explore", "migrate", "marks", `},
		"an unknown command":    {"simulat", "unexpected argument simulat"},
		"an unknown flag":       {"simulate --bad", "unknown flag --bad"},
		"no number":             {"simulate --rounds ten", "--rounds"},
		"no rounds":             {"simulate --rounds 0", "rounds: 0"},
		"a ttl too short":       {"simulate --ttl 1ms", "ttl: 1ms"},
		"no redis URL":          {"simulate --redis localhost", "redis: not a redis:// URL"},
		"redis is not there":    {"simulate --json --redis redis://:sekret@127.0.0.1:1", "redis at 127.0.0.1:1 cannot be used"},
		"postgres is not there": {"simulate --postgres postgres://u:sekret@127.0.0.1:1/db", "postgres cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done := execute(t, strings.Fields(c.args)...)
			require.Equal(t, 2, done.status)
			require.Empty(t, done.out)
			require.Equal(t, 1, strings.Count(done.err, "\n"), "one line: %s", done.err)
			require.True(t, strings.HasPrefix(done.err, "fencepost: "), done.err)
			require.Contains(t, done.err, c.text)
			require.NotContains(t, done.err, "sekret")
			requireEmpty(t, done.temp)
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	for args, text := range map[string]string{
		"--help": "simulate", "simulate --help": "--ttl=100ms", "version": "fencepost ",
	} {
		done := execute(t, strings.Fields(args)...)
		require.Zero(t, done.status)
		require.Contains(t, done.out, text)
		require.NotContains(t, done.out, "One writer", "that command is for ourselves")
		require.Empty(t, done.err)
	}
}

func requireEmpty(t *testing.T, folder string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, entries)
}
