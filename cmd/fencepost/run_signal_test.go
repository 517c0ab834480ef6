//go:build unix

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRunForwardsSignals(t *testing.T) {
	t.Parallel()
	redis := runLocks(t)["redis"]
	for s, status := range map[syscall.Signal]int{
		syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129, syscall.SIGQUIT: 131,
	} {
		t.Run(s.String()+" to a program that dies of it", func(t *testing.T) {
			t.Parallel()
			r := startRun(t, redis, nil, "job/"+s.String(), "sh", "-c", says+"exec sleep 1000")
			r.line(3)
			r.signal(s)
			require.Equal(t, status, r.status(), r.errs.String())
			require.Empty(t, r.errs.String())
			requireEnded(t, r)
			require.Zero(t, redis.execute(t, "job/"+s.String(), "true").status, "the lock was given back")
		})
	}
	t.Run("a program that takes its time has it", func(t *testing.T) {
		t.Parallel()
		lasting(t, time.Second, func(ttl time.Duration) bool {
			name, end := "job/"+ttl.String(), filepath.Join(t.TempDir(), "end")
			r := startRun(t, redis, []string{"--ttl", ttl.String()}, name, "sh", "-c",
				`trap 'echo asked; while [ ! -e "$0" ]; do sleep 0.01; done; exit 3' TERM; echo ready; while true; do sleep 0.01; done`, end)
			if !r.prints(1) {
				return false // its lease was lost
			}
			r.signal(syscall.SIGTERM)
			if !r.prints(2) {
				return false
			}
			require.Equal(t, "asked", r.line(2))
			time.Sleep(ttl * 3 / 2) // the lease is renewed meanwhile
			held := redis.execute(t, name, "true").status
			require.NoError(t, os.WriteFile(end, nil, 0o600))
			if r.status() == 123 {
				return false
			}
			require.Equal(t, 75, held, "and the lock")
			require.Equal(t, 3, r.status(), r.errs.String())
			return true
		})
	})
	t.Run("what a program leaves behind is ended with it", func(t *testing.T) {
		t.Parallel()
		r := startRun(t, redis, nil, "job/left", "sh", "-c", says)
		require.Zero(t, r.status())
		requireEnded(t, r)
	})
	t.Run("a program that hangs is stopped", func(t *testing.T) {
		t.Parallel()
		lasting(t, 500*time.Millisecond, func(most time.Duration) bool {
			r := startRun(t, redis, []string{"--at-most", most.String()}, "job/hung", "sh", "-c", says+"wait")
			require.Equal(t, 124, r.status())
			require.Contains(t, r.errs.String(), "--at-most has passed")
			if !r.prints(3) {
				return false // before the program had begun
			}
			requireEnded(t, r)
			require.Zero(t, redis.execute(t, "job/hung", "true").status)
			return true
		})
	})
}
