package serverproc_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/serverproc"
)

// Only a kill of everything, as at the end of a container, leaves something. Here the
// server survives it.
func TestTheNextRunRemovesWhatAKilledOneLeft(t *testing.T) {
	t.Parallel()
	temp := temp(t)
	cmd, folder, server := parent(t, temp, "TERM")
	require.NoError(t, exec.Command("kill", append([]string{"-9"}, shellsOf(t, folder)...)...).Run())
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.DirExists(t, folder)
	require.True(t, runs(server), "nothing has ended it")

	_, lock, err := serverproc.NewFolder(t.TempDir()) // sweeps its own parent only
	require.NoError(t, err)
	defer lock.Close()
	require.DirExists(t, folder)
	serverproc.Sweep(temp)
	require.True(t, empty(t, temp))
	require.False(t, runs(server))
}

// shellsOf returns the ids of the shells that would remove the folder and those in it.
func shellsOf(t *testing.T, folder string) (pids []string) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, line := range lines {
		text, _ := os.ReadFile(line) // none: it has ended
		if argv := strings.Split(string(text), "\x00"); len(argv) > 4 && argv[0] == "/bin/sh" && strings.HasPrefix(argv[4], folder) {
			pids = append(pids, filepath.Base(filepath.Dir(line)))
		}
	}
	require.GreaterOrEqual(t, len(pids), 2)
	return pids
}

func TestFoldersInUseAreNotSwept(t *testing.T) {
	t.Parallel()
	temp := temp(t)
	cmd, folder, server := parent(t, temp, "TERM")
	serverproc.Sweep(temp)
	require.DirExists(t, folder)
	require.True(t, runs(server))
	require.NoError(t, cmd.Process.Kill())
	require.Eventually(t, func() bool { return empty(t, temp) }, testTimeout, pause)
}
