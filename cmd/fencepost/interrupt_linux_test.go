package main

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

	"github.com/stretchr/testify/require"
)

// However the command ends, and although a writer is stopped at that moment, no
// process stays.
func TestNoProcessStays(t *testing.T) {
	t.Parallel()
	for signal, status := range map[syscall.Signal]int{
		syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129, syscall.SIGKILL: -1,
	} {
		t.Run("after "+signal.String(), func(t *testing.T) {
			t.Parallel()
			cmd, temp := command(t, "simulate", "--ttl", "10s")
			require.NoError(t, cmd.Start())
			writers := stoppedWriter(t, cmd)
			require.Len(t, writers, 2)
			require.NoError(t, cmd.Process.Signal(signal))
			require.Error(t, cmd.Wait())
			require.Equal(t, status, cmd.ProcessState.ExitCode())
			requireGone(t, writers)
			if signal != syscall.SIGKILL {
				requireEmpty(t, temp)
			}
		})
	}
}

// stoppedWriter waits until one of the command's children stands and returns
// the ids of all of them.
func stoppedWriter(t *testing.T, cmd *exec.Cmd) []int {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		var pids []int
		stands := false
		for pid, stat := range processes(t) {
			if stat.parent == cmd.Process.Pid {
				pids = append(pids, pid)
				stands = stands || stat.state == "T"
			}
		}
		if stands {
			return pids
		}
	}
	require.FailNow(t, "no writer was ever stopped")
	return nil
}

func requireGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			stat, there := processes(t)[pid]
			if !there || stat.state == "Z" { // a zombie runs no more; whoever adopted it will collect it
				break
			}
			require.True(t, time.Now().Before(deadline), "writer %d is there: %+v", pid, stat)
		}
	}
}

type stat struct {
	state  string
	parent int
}

// processes reads proc(5).
func processes(t *testing.T) map[int]stat {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	found := map[int]stat{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		// The name before may hold anything, even parentheses.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		require.NoError(t, err)
		var s stat
		_, err = fmt.Sscan(fields[0]+" "+fields[1], &s.state, &s.parent)
		require.NoError(t, err)
		found[pid] = s
	}
	return found
}
