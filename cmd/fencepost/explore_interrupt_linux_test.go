package main

import (
	"bytes"
	"os"
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
			cmd, temp := command(t, "explore", "--faults", "none", "--schedules", "9223372036854775807", flag)
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
			require.NoError(t, cmd.Start())
			late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
			defer late.Stop()
			requireAtWork(t, cmd.Process.Pid)
			require.NoError(t, cmd.Process.Signal(os.Interrupt))
			require.Error(t, cmd.Wait())
			require.Equal(t, 130, cmd.ProcessState.ExitCode())
			require.Equal(t, "fencepost: ended by signal: interrupt\n", errs.String())
			require.Empty(t, out.String(), "a part of the figures is none")
			requireEmpty(t, temp)
		})
	}
}

// requireAtWork waits until a process has computed for half a second, which is
// many times what it takes to read its flags and listen for signals.
func requireAtWork(t *testing.T, pid int) {
	t.Helper()
	const ticks = 50 // of a hundredth of a second: proc(5), USER_HZ
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		require.NoError(t, err)
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		spent, err := strconv.Atoi(fields[11]) // utime, the 14th
		require.NoError(t, err)
		if spent >= ticks {
			return
		}
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	require.FailNow(t, "it does not work")
}
