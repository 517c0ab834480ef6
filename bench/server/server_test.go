package server_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/bench/server"
)

const sleeping = "echo ready; exec sleep 1000"

func TestStopReturnsWhenNothingIsLeft(t *testing.T) {
	t.Parallel()
	var folder string
	s, err := server.Start(t.Context(), func(f string) string { folder = f; return sleeping })
	require.NoError(t, err)
	process := processOf(t, folder)
	require.NoError(t, process.Signal(syscall.Signal(0)), "the server runs")

	require.NoError(t, s.Stop())

	require.NoDirExists(t, folder)
	require.Error(t, process.Signal(syscall.Signal(0)), "the server outlived Stop")
}

func TestAServerIsGoneWhenItsProcessWasKilled(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envRole+"=parent")
	_, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Wait() }) // it was killed
	said := bufio.NewScanner(out)
	require.True(t, said.Scan())
	folder := said.Text()
	require.True(t, said.Scan())
	require.Equal(t, "started", said.Text())
	process := processOf(t, folder)

	require.NoError(t, cmd.Process.Kill())

	require.Eventually(t, func() bool {
		_, err := os.Stat(folder)
		return errors.Is(err, os.ErrNotExist) && process.Signal(syscall.Signal(0)) != nil
	}, 30*time.Second, 10*time.Millisecond, "the server or its folder outlived the process")
}

func TestAServerThatDoesNotStartSaysWhyAndLeavesNothing(t *testing.T) {
	t.Parallel()
	var folders []string
	_, err := server.Start(t.Context(), func(folder string) string {
		folders = append(folders, folder)
		return "echo out of memory; exit 3"
	})
	require.EqualError(t, err, "server: a stand-in: it did not start: out of memory")
	require.Len(t, folders, 5, "its port may have been taken: it tries again")
	for _, folder := range folders {
		require.NoDirExists(t, folder)
	}
}

func TestAnEndedContextEndsTheWait(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	var folders []string
	_, err := server.Start(ctx, func(folder string) string {
		folders = append(folders, folder)
		cancel(errors.New("enough"))
		return "exec sleep 1000"
	})
	require.ErrorContains(t, err, "enough")
	require.Len(t, folders, 1)
	require.NoDirExists(t, folders[0])
}

func processOf(t *testing.T, folder string) *os.Process {
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
	process, err := os.FindProcess(pid)
	require.NoError(t, err)
	return process
}
