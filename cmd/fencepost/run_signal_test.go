//go:build unix

package main

import (
	"syscall"
	"testing"

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
		r := startRun(t, redis, []string{"--ttl", "1s"}, "job", "sh", "-c",
			`trap "echo asked; sleep 2; exit 3" TERM; echo ready; while true; do sleep 0.01; done`)
		r.line(1)
		r.signal(syscall.SIGTERM)
		require.Equal(t, "asked", r.line(2))
		require.Equal(t, 75, redis.execute(t, "job", "true").status, "and the lock")
		require.Equal(t, 3, r.status(), r.errs.String())
	})
	t.Run("what a program leaves behind is ended with it", func(t *testing.T) {
		t.Parallel()
		r := startRun(t, redis, nil, "job/left", "sh", "-c", says)
		require.Zero(t, r.status())
		requireEnded(t, r)
	})
	t.Run("a program that hangs is stopped", func(t *testing.T) {
		t.Parallel()
		r := startRun(t, redis, []string{"--at-most", "3s"}, "job/hung", "sh", "-c", says+"wait")
		require.Equal(t, 124, r.status())
		require.Contains(t, r.errs.String(), "--at-most has passed")
		requireEnded(t, r)
		require.Zero(t, redis.execute(t, "job/hung", "true").status)
	})
}
