package main

import (
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ran is a run as a process.
type ran struct {
	*testing.T
	cmd       *exec.Cmd
	out, errs heardText
	ended     chan struct{}
}

func startRun(t *testing.T, lock runLock, flags []string, name string, program ...string) *ran {
	t.Helper()
	r := prepareRun(t, lock, flags, name, program...)
	r.start()
	return r
}

func prepareRun(t *testing.T, lock runLock, flags []string, name string, program ...string) *ran {
	t.Helper()
	args := append(append([]string{"run"}, lock.flags...), flags...)
	cmd, _ := command(t, append(append(args, name, "--"), program...)...)
	r := &ran{T: t, cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &r.out, &r.errs
	return r
}

func (r *ran) start() {
	r.Helper()
	require.NoError(r, r.cmd.Start())
	go func() {
		defer close(r.ended)
		_ = r.cmd.Wait() // its status is in cmd
	}()
	r.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.ended
	})
}

// line returns the program's n-th line. The test fails if the line does not arrive.
func (r *ran) line(n int) string {
	r.Helper()
	require.True(r, r.prints(n), "the run has ended: %s%s", r.out.String(), r.errs.String())
	return strings.Split(r.out.String(), "\n")[n-1]
}

// prints waits for the program's n-th line, and returns false if the run has ended without it.
func (r *ran) prints(n int) bool {
	r.Helper()
	for deadline := time.Now().Add(eventually); ; time.Sleep(time.Millisecond) {
		ended := r.hasEnded()
		if strings.Count(r.out.String(), "\n") >= n {
			return true
		}
		if ended {
			return false
		}
		require.True(r, time.Now().Before(deadline), "no line: %s%s", r.out.String(), r.errs.String())
	}
}

func (r *ran) hasEnded() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

func (r *ran) signal(s syscall.Signal) {
	r.Helper()
	require.NoError(r, r.cmd.Process.Signal(s))
}

func (r *ran) status() int {
	r.Helper()
	select {
	case <-r.ended:
	case <-time.After(eventually):
		require.FailNow(r, "the run does not end", "%s%s", r.out.String(), r.errs.String())
	}
	return r.cmd.ProcessState.ExitCode()
}

// heardText has the output of a process that runs.
type heardText struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write never fails.
func (h *heardText) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(p)
}

// String returns the output until now.
func (h *heardText) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}
