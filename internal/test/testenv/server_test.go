package testenv_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
)

func TestAServerForProgramsHasItsSettingsAndEnds(t *testing.T) {
	t.Parallel()
	s, err := testenv.StartPostgres("fsync=on", "max_wal_size=2GB")
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), s.URL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	var settings string
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT current_setting('fsync') || ' ' || current_setting('max_wal_size')").Scan(&settings))
	require.Equal(t, "on 2GB", settings)

	require.NoError(t, s.Stop())

	require.Eventually(t, func() bool { return conn.Ping(t.Context()) != nil }, testTimeout, pause)
}

func TestARedisForProgramsEnds(t *testing.T) {
	t.Parallel()
	s, err := testenv.StartRedis()
	require.NoError(t, err)
	options, err := redis.ParseURL(s.URL)
	require.NoError(t, err)
	client := redis.NewClient(options)
	defer client.Close()
	require.NoError(t, client.Ping(t.Context()).Err())
	require.NoError(t, s.Stop())
	require.Eventually(t, func() bool { return client.Ping(t.Context()).Err() != nil }, testTimeout, pause)
}

func TestALockIsExclusiveAndEndsWithItsHolder(t *testing.T) {
	t.Parallel()
	other, says := another(t, "holder of a lock")
	require.Equal(t, "locked", says())
	locked := make(chan error)
	go func() {
		unlock, err := testenv.LockFile("testenv-test")
		locked <- err
		unlock()
	}()
	select {
	case err := <-locked:
		t.Fatalf("two processes hold the lock (%v)", err)
	case <-time.After(300 * time.Millisecond):
	}
	require.NoError(t, other.Process.Kill())
	require.NoError(t, <-locked)
}

func TestRoundsReadsTheEnvironment(t *testing.T) {
	const variable = "FENCEPOST_TESTENV_TEST_ROUNDS"
	require.Equal(t, 7, testenv.Rounds(t, variable, 7))
	t.Setenv(variable, "1000")
	require.Equal(t, 1000, testenv.Rounds(t, variable, 7))
	for _, odd := range []string{"0", "-1", "many", "1e3"} {
		t.Setenv(variable, odd)
		ended := &ended{TB: t}
		require.PanicsWithValue(t, ended, func() { testenv.Rounds(ended, variable, 7) })
		require.Contains(t, ended.text, odd)
	}
}

// ended is a test that records why Fatalf ended it.
type ended struct {
	testing.TB
	text string
}

func (e *ended) Fatalf(format string, args ...any) {
	e.text = fmt.Sprintf(format, args...)
	panic(e)
}

func TestAServerIsGoneWhenItsTestProcessWasKilled(t *testing.T) {
	t.Parallel()
	other, says := another(t, "parent of a server")
	folder := says()
	require.Equal(t, "started", says())
	server := serverOf(t, folder)
	require.NoError(t, server.Signal(syscall.Signal(0)), "the server runs")

	require.NoError(t, other.Process.Kill())

	awaitGone(t, server, folder)
}

func TestAServerThatDoesNotStartReturnsItsLogAndLeavesNothing(t *testing.T) {
	t.Parallel()
	var folders []string
	_, _, err := testenv.StartProgram(func(folder string, _ int) []string {
		folders = append(folders, folder)
		return []string{"sh", "-c", "echo out of memory; exit 3"}
	})
	require.ErrorContains(t, err, "out of memory")
	require.NotEmpty(t, folders)
	for _, folder := range folders {
		require.NoDirExists(t, folder)
	}
}

func TestAMissingServerSaysWhatToDo(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTheKeysOfATestAreRemovedAndOthersStay$")
	cmd.Env = []string{"PATH=/nowhere"}
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "%s", out)
	for _, advice := range []string{"PATH has no redis-server", "`make setup`", testenv.EnvRedis} {
		require.Contains(t, string(out), advice)
	}
	require.NotContains(t, string(out), "SKIP")
}

func serverOf(t *testing.T, folder string) *os.Process {
	t.Helper()
	var pid int
	require.Eventually(t, func() bool { // the pid may be written after the server's first line
		text, err := os.ReadFile(filepath.Join(folder, "pid"))
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	}, testTimeout, pause)
	server, err := os.FindProcess(pid)
	require.NoError(t, err)
	return server
}

func awaitGone(t *testing.T, server *os.Process, folder string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := os.Stat(folder)
		return os.IsNotExist(err) && server.Signal(syscall.Signal(0)) != nil
	}, testTimeout, pause, "the server or its folder outlived the test process")
}
