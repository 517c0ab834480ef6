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

// However the command ends, no process is left, even if a writer is stopped at that moment.
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

// stoppedWriter waits until the command has two children and one of them is stopped,
// and returns their ids.
func stoppedWriter(t *testing.T, cmd *exec.Cmd) []int {
	t.Helper()
	for deadline := time.Now().Add(eventually); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		var pids []int
		stopped := false
		for pid, stat := range processes(t) {
			if stat.parent == cmd.Process.Pid {
				pids = append(pids, pid)
				stopped = stopped || stat.state == "T"
			}
		}
		if stopped && len(pids) == 2 {
			return pids
		}
	}
	require.FailNow(t, "no writer was ever stopped")
	return nil
}

func requireGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		for deadline := time.Now().Add(eventually); ; time.Sleep(time.Millisecond) {
			stat, there := process(t, pid)
			if !there || stat.state == "Z" { // a zombie runs no more; the process that adopted it will collect it
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

// processes reads proc(5) of all processes.
func processes(t *testing.T) map[int]stat {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	found := map[int]stat{}
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		require.NoError(t, err)
		if s, there := process(t, pid); there {
			found[pid] = s
		}
	}
	return found
}

// process reads proc(5) of one process. there is false if it has ended.
func process(t *testing.T, pid int) (s stat, there bool) {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return s, false
	}
	// The name can have any character, even parentheses.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	_, err = fmt.Sscan(fields[0]+" "+fields[1], &s.state, &s.parent)
	require.NoError(t, err)
	return s, true
}
