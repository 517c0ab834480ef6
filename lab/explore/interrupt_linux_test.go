package main

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestExploreEndsWhenItIsInterrupted(t *testing.T) {
	t.Parallel()
	for name, flag := range map[string]string{"in the schedules": "--json", "in the mutants": "--mutants"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			self, err := os.Executable()
			require.NoError(t, err)
			temp := t.TempDir()
			cmd := exec.Command(self, "--faults", "none", "--schedules", "9223372036854775807", flag)
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			cmd.Env = append(os.Environ(), asCommand+"=1", "TMPDIR="+temp, "GOMAXPROCS=1")
			require.NoError(t, cmd.Start())
			late := time.AfterFunc(hang, func() { _ = cmd.Process.Kill() })
			defer late.Stop()
			requireAtWork(t, cmd.Process.Pid)
			require.NoError(t, cmd.Process.Signal(os.Interrupt))
			require.Error(t, cmd.Wait())
			require.Equal(t, 130, cmd.ProcessState.ExitCode())
			require.Equal(t, "explore: ended by signal: interrupt\n", errs.String())
			require.Empty(t, out.String(), "no partial figures")
			requireOnly(t, temp)
		})
	}
}

// hang is when a process that does not end is killed.
const hang = 10 * time.Minute

// requireAtWork waits until a process has computed for half a second, which is many times
// what it needs to read its flags and listen for signals.
func requireAtWork(t *testing.T, pid int) {
	t.Helper()
	const ticks = 50 // of a hundredth of a second: proc(5), USER_HZ
	for deadline := time.Now().Add(hang); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		require.NoError(t, err)
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		used, err := strconv.Atoi(fields[11]) // utime, the 14th
		require.NoError(t, err)
		if used >= ticks {
			return
		}
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	require.FailNow(t, "the process does not compute")
}
