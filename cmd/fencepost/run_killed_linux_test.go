package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// However a run is killed, its program does not go on without the lock.
func TestRunThatIsKilledTakesItsProgramAlong(t *testing.T) {
	t.Parallel()
	redis := runLocks(t)["redis"]
	t.Run("with all that it has started", func(t *testing.T) {
		t.Parallel()
		r := startRun(t, redis, nil, "job/one", "sh", "-c", `trap "" TERM; `+says+"wait")
		minder := minderOf(t, r)
		r.signal(syscall.SIGKILL)
		r.status()
		requireGone(t, append(programs(t, r), minder))
	})
	t.Run("also where its minder is killed with it", func(t *testing.T) {
		t.Parallel()
		r := startRun(t, redis, nil, "job/two", "sh", "-c", says+"wait")
		require.NoError(t, syscall.Kill(minderOf(t, r), syscall.SIGKILL))
		ids := programs(t, r)
		r.signal(syscall.SIGKILL)
		requireGone(t, ids[1:])
		require.NoError(t, syscall.Kill(ids[0], syscall.SIGKILL), "what it has started is nobody's any more")
	})
}

// hazard L1
// A run that stands cannot end its program, and the minder does: when another
// one has the lock it is gone.
func TestRunThatIsStoppedEndsItsProgramInTime(t *testing.T) {
	t.Parallel()
	for name, lock := range runLocks(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startRun(t, lock, []string{"--ttl", "12s"}, "job", "sh", "-c", `trap "" TERM; `+says+"wait")
			ids := programs(t, r)
			r.signal(syscall.SIGSTOP)
			require.Eventually(t, func() bool {
				_, err := lock.Acquire(t.Context(), "job", "successor", time.Hour)
				return err == nil
			}, eventually, time.Millisecond)
			for pid, stat := range processes(t) {
				require.False(t, (pid == ids[0] || pid == ids[1]) && stat.state != "Z", "%d: %+v", pid, stat)
			}
			r.signal(syscall.SIGCONT)
			require.Equal(t, 123, r.status(), r.errs.String())
		})
	}
}

// programs are the ids of what the program has started, and its own.
func programs(t *testing.T, r *ran) (ids []int) {
	t.Helper()
	for _, line := range []string{r.line(2), r.line(3)} {
		id, err := strconv.Atoi(line)
		require.NoError(t, err)
		ids = append(ids, id)
	}
	return ids
}

// minderOf looks for the minder once the program runs.
func minderOf(t *testing.T, r *ran) int {
	t.Helper()
	r.line(3)
	for pid, stat := range processes(t) {
		line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if err == nil && stat.parent == r.cmd.Process.Pid && strings.Contains(string(line), "minder") {
			return pid
		}
	}
	require.FailNow(t, "there is no minder")
	return 0
}
