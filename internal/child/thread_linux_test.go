package child_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/child"
)

const stops = 50

func init() {
	if role := os.Getenv(envRole); role == "kill" || role == "tgkill" {
		runtime.LockOSThread() // main keeps the main thread, which is whom kill(2) asks to stop
	}
}

// stopping is a process that stops itself again and again, and writes a line
// right after each stop.
func stopping(how string) error {
	stop := child.StopThread
	if how == "kill" {
		stop = func() error { return syscall.Kill(os.Getpid(), syscall.SIGSTOP) }
	}
	done := make(chan error)
	go func() {
		for range stops {
			if err := stop(); err != nil {
				done <- err
				return
			}
			fmt.Println("the write")
		}
		close(done)
	}()
	return <-done
}

// A process that has been seen to stand must have done nothing after it asked
// to be stopped.
func TestNothingRunsBetweenThePauseAndTheStop(t *testing.T) {
	t.Parallel()
	t.Run("a signal to the own thread stops it at once", func(t *testing.T) {
		t.Parallel()
		require.False(t, runsOn(t, "tgkill"))
	})
	t.Run("a signal to the own process lets it run on", func(t *testing.T) {
		t.Parallel()
		require.True(t, runsOn(t, "kill"), "in none of %d stops", stops)
	})
}

// runsOn reports whether the process had ever written already when it was seen
// to stand.
func runsOn(t *testing.T, how string) bool {
	process, out := startStopping(t, how)
	line := make([]byte, len("the write\n"))
	for range stops {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(process.Pid, &status, syscall.WUNTRACED, nil)
		require.NoError(t, err)
		require.True(t, status.Stopped(), "status %v", status)
		if buffered(t, out, line) > 0 {
			return true
		}
		require.NoError(t, process.Signal(syscall.SIGCONT))
		_, err = io.ReadFull(out, line)
		require.NoError(t, err)
	}
	return false
}

func startStopping(t *testing.T, how string) (*os.Process, *os.File) {
	out, in, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { out.Close() })
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envRole+"="+how)
	cmd.Stdout, cmd.Stderr = in, os.Stderr
	require.NoError(t, cmd.Start())
	require.NoError(t, in.Close())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process, out
}

// buffered reads what is in the pipe, without waiting for more.
func buffered(t *testing.T, pipe *os.File, p []byte) (n int) {
	conn, err := pipe.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, conn.Read(func(fd uintptr) bool {
		n, _ = syscall.Read(int(fd), p)
		return true
	}))
	return n
}
