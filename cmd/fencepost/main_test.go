package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

// asCommand makes this test binary run main, as the command does, with the race detector if
// the tests have it.
const asCommand = "FENCEPOST_TEST_AS_COMMAND"

// roles are what a process of a test can be, besides the command.
var roles = map[string]func(*subprocess.Parent) error{}

func TestMain(m *testing.M) {
	subprocess.Serve(roles)
	if os.Getenv(asCommand) != "" {
		connect.Timeout = eventually
		main()
	}
	if signal.Ignored(syscall.SIGHUP) {
		// The caller is nohup, for example. Children would inherit that SIGHUP is ignored;
		// for a signal that is caught here, they start with the default action.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	testenv.AtOnce(8) // these tests wait most of the time
	leaktest.Main(m)
}

// command prepares a run whose temporary files are the test's own.
func command(t *testing.T, args ...string) (cmd *exec.Cmd, temp string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	temp = t.TempDir()
	cmd = exec.Command(self, args...)
	// Under the race detector, a process sleeps for a second by default when it exits.
	cmd.Env = append(os.Environ(), asCommand+"=1", "TMPDIR="+temp, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	return cmd, temp
}

// finished is the output and the status of a process that has ended.
type finished struct {
	out, err string
	status   int
	temp     string
}

func execute(t *testing.T, args ...string) finished {
	t.Helper()
	return typing(t, "", args...)
}

// typing runs the command with input on its standard input.
func typing(t *testing.T, input string, args ...string) finished {
	t.Helper()
	cmd, temp := command(t, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	if err := cmd.Run(); err != nil {
		require.IsType(t, &exec.ExitError{}, err)
	}
	return finished{out: out.String(), err: errs.String(), status: cmd.ProcessState.ExitCode(), temp: temp}
}

// requireFailed requires a status, and one line with text and without the password.
func requireFailed(t *testing.T, done finished, status int, text string) {
	t.Helper()
	require.Equal(t, status, done.status, done.err)
	require.Empty(t, done.out)
	require.Equal(t, 1, strings.Count(done.err, "\n"), "one line: %s", done.err)
	require.True(t, strings.HasPrefix(done.err, "fencepost: "), done.err)
	require.Contains(t, done.err, text)
	require.NotContains(t, done.err, "sekret")
}

func TestStatusOfWhatCannotBeRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args string
		text string
	}{
		"an unknown command":    {"simulat", `unexpected argument simulat, did you mean "simulate"? (see fencepost --help)`},
		"an unknown subcommand": {"migrate dwon", `did you mean "down"? (see fencepost migrate --help)`},
		"help of no command":    {"help simulat", `did you mean "simulate"?`},
		"an unknown flag":       {"simulate --round 1", `unknown flag --round, did you mean "--rounds"? (see fencepost simulate --help)`},
		"a duration in years":   {"simulate --ttl 1y", `--ttl: "1y" is not a duration, as 90s, 1h30m, 30d or 2w, of at most 292 years`},
		"a negative duration":   {"marks prune --older-than=-1d", `--older-than: "-1d": a duration cannot be negative`},
		"no number":             {"simulate --rounds ten", "--rounds"},
		"no rounds":             {"simulate --rounds 0", "rounds: 0"},
		"a ttl too short":       {"simulate --ttl 1ms", "ttl: 1ms"},
		"half a millisecond":    {"simulate --ttl 100500us", "ttl: 100.5ms"},
		"no redis URL":          {"simulate --redis localhost", "redis: not a redis:// URL"},
		"a redis without //":    {"simulate --redis redis:u:sekret@locks:6379", "redis: not a redis:// URL with a host"},
		"a postgres without //": {"simulate --postgres postgres:u:sekret@db:5432/shop?sslmode=disable", "postgres: neither a postgres:// URL"},
		"redis is not there":    {"simulate --json --redis redis://:sekret@127.0.0.1:1", "redis at 127.0.0.1:1 cannot be used"},
		"postgres is not there": {"simulate --postgres postgres://u:sekret@127.0.0.1:1/db", "postgres cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done := execute(t, strings.Fields(c.args)...)
			requireFailed(t, done, 2, c.text)
			requireEmpty(t, done.temp)
		})
	}
}

func TestStatusSaysOneLine(t *testing.T) {
	t.Parallel()
	var printed bytes.Buffer
	err := fmt.Errorf("postgres: %w", errors.New("connect:\n\tfirst: refused\n\tfirst: refused\n\tsecond: refused"))
	require.Equal(t, 2, status(err, &printed))
	require.Equal(t, "fencepost: postgres: connect: first: refused; second: refused\n", printed.String())
}

// lasting calls try with a time that is doubled until try returns true. It returns false if
// that time was over before the test came to its point, as on a busy machine.
func lasting(t *testing.T, d time.Duration, try func(d time.Duration) (inTime bool)) {
	t.Helper()
	for ; !try(d); d *= 2 {
		require.Less(t, d, eventually/2, "it never came to its point in time")
	}
}

func requireEmpty(t *testing.T, folder string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, entries)
}
