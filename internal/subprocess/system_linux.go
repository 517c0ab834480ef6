package subprocess

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
)

// attributes puts the child into a process group of its own, so that a terminal's Ctrl-C
// reaches only the parent, which ends its children in order. If the parent is killed, the
// child is killed too, even if it is stopped.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// CanStopThread reports whether [StopThread] works on this system.
const CanStopThread = true

// StopThread stops this process before it returns. SIGSTOP stops all threads whichever
// thread gets it, but only that thread stops at once. With kill(2) the kernel chooses the
// thread, and the caller may run many more instructions, such as a write, before the stop
// reaches it. So the signal goes to the calling thread: tgkill(2) does not return to a
// thread with a pending stop.
func StopThread() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return os.NewSyscallError("tgkill", syscall.Tgkill(os.Getpid(), syscall.Gettid(), syscall.SIGSTOP))
}

// fSetPipeSize is F_SETPIPE_SZ of fcntl(2). The smallest size is one page.
const fSetPipeSize = 1031

// CanStopWorld reports whether [World] works on this system.
const CanStopWorld = true

// resize sets the capacity of the pipe in bytes.
func resize(pipe *os.File, size uintptr) error {
	conn, err := pipe.SyscallConn()
	if err != nil {
		return err
	}
	var errno syscall.Errno
	err = conn.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall(syscall.SYS_FCNTL, fd, fSetPipeSize, size)
	})
	if errno != 0 {
		return fmt.Errorf("subprocess: F_SETPIPE_SZ: %w", errno)
	}
	return err
}

// empty reads what is in the pipe without waiting for more.
func empty(pipe *os.File) error {
	conn, err := pipe.SyscallConn()
	if err != nil {
		return err
	}
	buffer := make([]byte, 1<<16)
	return conn.Read(func(fd uintptr) bool {
		for {
			if n, err := syscall.Read(int(fd), buffer); n <= 0 && !errors.Is(err, syscall.EINTR) {
				return true
			}
		}
	})
}

// StopWorld is called in the child, with the descriptor of the parent's [World]. It
// returns when the parent has drained the pipe. In between no goroutine and no timer of
// this process runs; only system calls that were under way finish.
//
// StopWorld makes the descriptor blocking: with a non-blocking one the runtime treats a
// full pipe as an error and would not stop.
func StopWorld(fd uintptr) error {
	if err := syscall.SetNonblock(int(fd), false); err != nil {
		return fmt.Errorf("subprocess: world: %w", err)
	}
	debug.WriteHeapDump(fd)
	return nil
}
