package main

import (
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

	"github.com/fencepost/fencepost/token"
)

// However a run is killed, its program does not continue without the lock.
func TestRunThatIsKilledTakesItsProgramAlong(t *testing.T) {
	t.Parallel()
	redis := runLocks(t)["redis"]
	t.Run("with all that it has started", func(t *testing.T) {
		t.Parallel()
		r := startRun(t, redis, nil, "job/one", "sh", "-c", `trap "" TERM; `+says+"wait")
		ids := append(programs(t, r), watchdogOf(t, r))
		r.signal(syscall.SIGKILL)
		requireGone(t, ids)
	})
	t.Run("also where its watchdog is killed with it", func(t *testing.T) {
		t.Parallel()
		r := startRun(t, redis, nil, "job/two", "sh", "-c", says+"wait")
		watchdog, ids := watchdogOf(t, r), programs(t, r)
		r.stop() // it does not see the watchdog's end
		require.NoError(t, syscall.Kill(watchdog, syscall.SIGKILL))
		r.signal(syscall.SIGKILL)
		requireGone(t, ids[1:])
		require.NoError(t, syscall.Kill(ids[0], syscall.SIGKILL), "the processes that it has started have no parent")
	})
}

// hazard L1
// A stopped run cannot end its program. The watchdog ends it before another holder has the
// lock.
func TestStressRunThatIsStoppedEndsItsProgramInTime(t *testing.T) {
	t.Parallel()
	for name, lock := range runLocks(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A watchdog that gets no processor for a part of the lease is late.
			lasting(t, 3*time.Second, func(ttl time.Duration) (inTime bool) {
				name := "job/" + ttl.String()
				r := startRun(t, lock, []string{"--ttl", ttl.String()}, name, "sh", "-c", `trap "" TERM; `+says+"wait")
				if !r.prints(3) {
					return false
				}
				ids := programs(t, r)
				r.stop()
				require.Eventually(t, func() bool {
					_, err := lock.Acquire(t.Context(), name, "successor", time.Hour)
					return err == nil
				}, eventually, time.Millisecond)
				inTime = true
				for _, pid := range ids {
					stat, there := process(t, pid)
					inTime = inTime && (!there || stat.state == "Z")
				}
				r.signal(syscall.SIGCONT)
				require.Equal(t, 123, r.status(), r.errs.String())
				return inTime
			})
		})
	}
}

// hazard L14
// Without the watchdog, a program would continue if its run were stopped. When the watchdog
// has ended, the run ends the program at once.
func TestRunWhoseWatchdogIsKilledEndsItsProgram(t *testing.T) {
	t.Parallel()
	for name, lock := range runLocks(t) {
		for how, script := range map[string]string{
			"a program that ends when it is asked": says + "wait",
			"a program that does not":              `trap "" TERM; ` + says + "while true; do wait; done",
		} {
			t.Run(name+": "+how, func(t *testing.T) {
				t.Parallel()
				r := startRun(t, lock, nil, "job/"+how, "sh", "-c", script)
				r.line(3)
				require.NoError(t, syscall.Kill(watchdogOf(t, r), syscall.SIGKILL))
				require.Equal(t, 123, r.status(), r.errs.String())
				require.Equal(t, "fencepost: run job/"+how+": the program was stopped: the watchdog has ended\n", r.errs.String())
				requireEnded(t, r)
				require.Zero(t, lock.execute(t, "job/"+how, "true").status, "the lock was given back")
			})
		}
	}
	t.Run("one that is stopped goes on", func(t *testing.T) {
		t.Parallel()
		r := startRun(t, runLocks(t)["redis"], nil, "job", "sh", "-c", `trap "" TERM; `+says+"wait")
		watchdog, ids := watchdogOf(t, r), programs(t, r)
		stopped := func() bool { stat, _ := process(t, watchdog); return stat.state == "T" }
		r.stop() // so that the stop can be seen
		require.NoError(t, syscall.Kill(watchdog, syscall.SIGSTOP))
		require.Eventually(t, stopped, eventually, time.Millisecond)
		r.signal(syscall.SIGCONT)
		require.Eventually(t, func() bool { return !stopped() }, eventually, time.Millisecond)
		r.signal(syscall.SIGKILL)
		requireGone(t, append(ids, watchdog))
	})
	t.Run("the twin: a program whose run does not see it writes behind its successor", func(t *testing.T) {
		t.Parallel()
		lock := runLocks(t)["redis"]
		file := filepath.Join(t.TempDir(), "ticks")
		r := startRun(t, lock, nil, "job", "sh", "-c", says+ticks, file)
		watchdog, ids := watchdogOf(t, r), programs(t, r)
		var tok token.Token
		require.NoError(t, tok.UnmarshalText([]byte(r.line(1))))
		defer func() { _ = syscall.Kill(-ids[1], syscall.SIGKILL) }()
		r.stop()
		require.NoError(t, syscall.Kill(watchdog, syscall.SIGKILL))
		require.NoError(t, lock.Release(t.Context(), tok)) // as by the end of its lease
		begun := startRun(t, lock, []string{"--wait", "1h"}, "job", "date", "+%s.%N")
		require.Zero(t, begun.status(), begun.errs.String())
		require.Eventually(t, func() bool { return lastTick(t, file) > strings.TrimSpace(begun.out.String()) }, eventually, time.Millisecond)
	})
}

// The watchdog is started before the wait, from the binary that runs: a deploy may replace
// its file meanwhile.
func TestRunThatWaitsHasItsWatchdog(t *testing.T) {
	t.Parallel()
	lock := runLocks(t)["redis"]
	for how, c := range map[string]struct {
		meanwhile func(r *ran, watchdog int) error
		status    int
		says      string
	}{
		"the file is deleted": {func(r *ran, _ int) error { return os.Remove(r.cmd.Path) }, 7, ""},
		"the file is replaced": {func(r *ran, _ int) error {
			return errors.Join(os.Remove(r.cmd.Path), os.Symlink("/bin/false", r.cmd.Path))
		}, 7, ""},
		"the run is killed": {func(r *ran, _ int) error { return r.cmd.Process.Kill() }, -1, ""},
		"the watchdog is killed": {func(_ *ran, watchdog int) error { return syscall.Kill(watchdog, syscall.SIGKILL) }, 125,
			": the watchdog has ended\n"},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			grant, err := lock.Acquire(t.Context(), "job/"+how, "another", time.Hour)
			require.NoError(t, err)
			r := prepareRun(t, lock, []string{"--wait", "1h"}, grant.Token.Resource, "sh", "-c", "exit 7")
			binary := filepath.Join(t.TempDir(), "fencepost")
			require.NoError(t, exec.Command("cp", r.cmd.Path, binary).Run()) // another process writes it: a fork of this one would keep it busy
			r.cmd.Path = binary
			r.start()
			watchdog := watchdogOf(t, r)
			require.NoError(t, c.meanwhile(r, watchdog))
			if c.status != 7 { // a signal is delivered later
				requireGone(t, []int{watchdog})
			}
			if c.status == 125 { // a zombie's other threads may still have its end of the pipe open, until the run collects it
				require.Eventually(t, func() bool { _, there := process(t, watchdog); return !there }, eventually, time.Millisecond)
			}
			require.NoError(t, lock.Release(t.Context(), grant.Token))
			require.Equal(t, c.status, r.status(), r.errs.String())
			require.True(t, strings.HasSuffix(r.errs.String(), c.says), r.errs.String())
			requireGone(t, []int{watchdog})
		})
	}
}

// stop stops the run, and returns when each of its threads has stopped: until then, they
// may see what the test does next.
func (r *ran) stop() {
	r.Helper()
	r.signal(syscall.SIGSTOP)
	tasks := "/proc/" + strconv.Itoa(r.cmd.Process.Pid) + "/task"
	require.Eventually(r, func() bool {
		threads, err := os.ReadDir(tasks)
		require.NoError(r, err)
		for _, thread := range threads {
			id, err := strconv.Atoi(thread.Name())
			require.NoError(r, err)
			if stat, there := process(r.T, id); there && stat.state != "T" {
				return false
			}
		}
		return true
	}, eventually, time.Millisecond)
}

// programs returns the ids of the process that the program has started, and of the program.
func programs(t *testing.T, r *ran) (ids []int) {
	t.Helper()
	for _, line := range []string{r.line(2), r.line(3)} {
		id, err := strconv.Atoi(line)
		require.NoError(t, err)
		ids = append(ids, id)
	}
	return ids
}

// An orphan of the program that ends before the program leaves no zombie.
func TestRunWaitsForOrphans(t *testing.T) {
	t.Parallel()
	lock := runLocks(t)["redis"]
	parents := map[string]*syscall.SysProcAttr{"as a subreaper": nil}
	if exec.Command("unshare", "--pid", "true").Run() == nil { // not every machine permits it, and the code is the same
		parents["as process 1"] = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	}
	for how, attributes := range parents {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := prepareRun(t, lock, nil, "job/"+how, "sh", "-c", `(sleep 1000 &); (setsid sleep 1001 >/dev/null 2>&1 &); exec sleep 1002`)
			r.cmd.SysProcAttr = attributes
			r.start()
			orphans := []int{childOf(t, r, "sleep\x001000\x00"), childOf(t, r, "sleep\x001001\x00")}
			for _, pid := range orphans {
				require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
			}
			for _, pid := range orphans {
				require.Eventually(t, func() bool { _, there := process(t, pid); return !there }, eventually, time.Millisecond)
			}
			r.signal(syscall.SIGTERM)
			require.Equal(t, 143, r.status(), r.errs.String())
		})
	}
}

// watchdogOf waits for the watchdog, which runs as fencepost watchdog.
func watchdogOf(t *testing.T, r *ran) int { return childOf(t, r, "\x00watchdog\x00") }

// childOf waits for a child of the run with the end of a command line.
func childOf(t *testing.T, r *ran, end string) (child int) {
	t.Helper()
	require.Eventually(t, func() bool {
		for pid, stat := range processes(t) {
			line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
			if err == nil && stat.parent == r.cmd.Process.Pid && strings.HasSuffix(string(line), end) {
				child = pid
			}
		}
		return child != 0
	}, eventually, time.Millisecond)
	return child
}
