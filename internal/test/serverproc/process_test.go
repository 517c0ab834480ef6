package serverproc_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/serverproc"
)

// envParent makes this test binary a test process that starts a server and waits. Its value
// is the signal that ends the server.
const envParent = "FENCEPOST_SERVERPROC_PARENT"

func TestMain(m *testing.M) {
	signal := os.Getenv(envParent)
	if signal == "" {
		os.Exit(m.Run())
	}
	if _, err := serverproc.OwnTemp(""); err != nil {
		panic(err)
	}
	p, err := serverproc.Start(standIn(signal, "echo ready; exec sleep 1000"))
	if err != nil {
		panic(err)
	}
	fmt.Println(p.Folder)
	// Until this process is killed, or its parent is and the pipe closes.
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func standIn(signal, script string) serverproc.Program {
	argv := func(string, int) []string { return []string{"sh", "-c", script} }
	return serverproc.Program{Title: "a stand-in", Ready: "ready", Signal: signal, Argv: argv}
}

// Only a hang reaches the timeout.
const (
	testTimeout = 2 * time.Minute
	pause       = 10 * time.Millisecond
)

// parent starts a test process with a server, and returns the process, its folder for
// temporary files, and the server, whose folder is in it.
func parent(t *testing.T, temp, signal string) (cmd *exec.Cmd, folder string, server *os.Process) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envParent+"="+signal, "TMPDIR="+temp, serverproc.EnvCommon+"=")
	_, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Wait() }) // it was killed
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan(), "the other process ended: %v", lines.Err())
	folder = lines.Text()
	server = serverOf(t, folder)
	require.True(t, runs(server))
	return cmd, filepath.Dir(folder), server
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

// runs returns false for a process that has ended, also if no other one has waited for it.
func runs(p *os.Process) bool {
	if p.Signal(syscall.Signal(0)) != nil {
		return false
	}
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(p.Pid)).Output()
	return err == nil && !strings.HasPrefix(string(state), "Z")
}

// temp returns a folder for temporary files that other users may enter.
func temp(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "serverproc-") //nolint:usetesting // other users may not enter t.TempDir
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	require.NoError(t, os.Chmod(folder, os.ModeSticky|0o777))
	return folder
}

func empty(t *testing.T, folder string) bool {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	return len(entries) == 0
}

func TestAKilledTestProcessLeavesNoServerAndNoFolder(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]string{"ended by a signal": "TERM", "killed": "KILL"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			temp := temp(t)
			cmd, _, server := parent(t, temp, signal)
			require.NoError(t, cmd.Process.Kill())
			require.Eventually(t, func() bool { return empty(t, temp) && !runs(server) }, testTimeout, pause)
		})
	}
}

func TestAServerThatDoesNotStartReturnsItsLogAndLeavesNothing(t *testing.T) {
	t.Parallel()
	var folders []string
	program := standIn("TERM", "")
	program.Argv = func(folder string, _ int) []string {
		folders = append(folders, folder)
		return []string{"sh", "-c", "echo out of memory; exit 3"}
	}
	_, err := serverproc.Start(program)
	require.ErrorContains(t, err, "out of memory")
	require.NotEmpty(t, folders)
	for _, folder := range folders {
		require.NoDirExists(t, folder)
	}
}

func TestRemoveEndsTheServer(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]string{"by a signal": "TERM", "as a power cut does": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := serverproc.Start(standIn(signal, "sleep 1000 & echo ready; wait"))
			require.NoError(t, err)
			server, folder := serverOf(t, p.Folder), p.Folder
			require.NoError(t, p.Remove())
			require.False(t, runs(server))
			require.NoDirExists(t, folder)
		})
	}
}

func TestAFolderSurvivesAKillAndARestart(t *testing.T) {
	t.Parallel()
	p, err := serverproc.Start(standIn("", "echo started >>starts; echo ready; exec sleep 1000"))
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Remove()) }()
	first := serverOf(t, p.Folder)
	p.Kill()
	require.False(t, runs(first))
	require.False(t, p.Running())
	serverproc.Sweep(filepath.Dir(p.Folder)) // as another test process does: the folder is in use
	require.NoError(t, p.Restart())
	starts, err := os.ReadFile(filepath.Join(p.Folder, "starts"))
	require.NoError(t, err)
	require.Equal(t, "started\nstarted\n", string(starts))
}
