package testenv_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
)

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

func TestAServerThatDoesNotStartSaysWhyAndLeavesNothing(t *testing.T) {
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
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTheKeysOfATestGoAndThoseOfOthersStay$")
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
	require.Eventually(t, func() bool { // it may be written after the server's own first words
		text, err := os.ReadFile(filepath.Join(folder, "pid"))
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	}, 30*time.Second, 10*time.Millisecond)
	server, err := os.FindProcess(pid)
	require.NoError(t, err)
	return server
}

func awaitGone(t *testing.T, server *os.Process, folder string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := os.Stat(folder)
		return os.IsNotExist(err) && server.Signal(syscall.Signal(0)) != nil
	}, 30*time.Second, 10*time.Millisecond, "the server or its folder outlived the test process")
}
