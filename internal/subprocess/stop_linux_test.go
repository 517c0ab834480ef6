package subprocess_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/subprocess"
)

// tick counts in the memory that descriptor 3 shares: one goroutine sleeps now and then,
// another never.
func tick(p *subprocess.Parent) error {
	counts, err := share(os.NewFile(3, "counts"))
	if err != nil {
		return err
	}
	go func() {
		for ; ; time.Sleep(50 * time.Microsecond) {
			counts[0].Add(1)
		}
	}()
	go func() {
		for {
			counts[1].Add(1)
			runtime.Gosched()
		}
	}()
	ctx, cancel := p.UntilClosed(context.Background())
	defer cancel()
	<-ctx.Done()
	return nil
}

func share(f *os.File) (*[2]atomic.Uint64, error) {
	memory, err := syscall.Mmap(int(f.Fd()), 0, 16, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return (*[2]atomic.Uint64)(unsafe.Pointer(&memory[0])), nil
}

// While the child is stopped, none of its code runs: its memory does not change.
func TestNothingOfAChildRunsWhileItIsStopped(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "counts"))
	require.NoError(t, err)
	t.Cleanup(func() { file.Close() })
	require.NoError(t, file.Truncate(16))
	counts, err := share(file)
	require.NoError(t, err)
	p := start(t, "ticks", file)
	requireRuns(t, counts)
	for range 3 {
		require.NoError(t, p.Stop())
		require.NoError(t, p.Stands(t.Context()))
		requireStands(t, counts)
		require.NoError(t, p.Continue())
		requireRuns(t, counts)
	}
}

func requireStands(t *testing.T, counts *[2]atomic.Uint64) {
	t.Helper()
	before := [2]uint64{counts[0].Load(), counts[1].Load()}
	time.Sleep(30 * time.Millisecond)
	require.Equal(t, before, [2]uint64{counts[0].Load(), counts[1].Load()})
}

func requireRuns(t *testing.T, counts *[2]atomic.Uint64) {
	t.Helper()
	before := [2]uint64{counts[0].Load(), counts[1].Load()}
	require.Eventually(t, func() bool {
		return counts[0].Load() > before[0] && counts[1].Load() > before[1]
	}, 2*time.Minute, time.Millisecond)
}

func init() {
	if role := subprocess.Role(); role == "kill" || role == "tgkill" {
		runtime.LockOSThread() // main keeps the main thread, to which kill(2) sends the signal
	}
	roles["ticks"] = tick
	pauses = append(pauses, subprocess.StoppedByParent)
	roles["tgkill"] = func(*subprocess.Parent) error { return stopAndWrite(subprocess.StopThread) }
	roles["kill"] = func(*subprocess.Parent) error {
		return stopAndWrite(func() error { return syscall.Kill(os.Getpid(), syscall.SIGSTOP) })
	}
}

// stopAndWrite stops this process again and again, and writes a line right after each
// stop, until the process is killed.
func stopAndWrite(stop func() error) error {
	done := make(chan error)
	go func() {
		for {
			if err := stop(); err != nil {
				done <- err
				return
			}
			fmt.Println("the write")
		}
	}()
	return <-done
}

// Between the call that stops a process and the moment it is seen stopped, the process
// must do nothing.
func TestNothingRunsBetweenThePauseAndTheStop(t *testing.T) {
	t.Parallel()
	t.Run("a signal to its own thread stops it at once", func(t *testing.T) {
		t.Parallel()
		require.False(t, runsOn(t, "tgkill", 50))
	})
	t.Run("a signal to its own process lets it run on", func(t *testing.T) {
		t.Parallel()
		require.True(t, runsOn(t, "kill", 5000))
	})
}

// runsOn reports whether in one of that many stops the process had already written when
// it was seen stopped.
func runsOn(t *testing.T, how string, stops int) bool {
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
	c, err := subprocess.Self(how, how)
	require.NoError(t, err)
	cmd := exec.Command(c.Argv[0])
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Stdout, cmd.Stderr = in, os.Stderr
	require.NoError(t, cmd.Start())
	require.NoError(t, in.Close())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process, out
}

// buffered reads what is in the pipe without waiting for more.
func buffered(t *testing.T, pipe *os.File, p []byte) (n int) {
	conn, err := pipe.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, conn.Read(func(fd uintptr) bool {
		n, _ = syscall.Read(int(fd), p)
		return true
	}))
	return n
}
