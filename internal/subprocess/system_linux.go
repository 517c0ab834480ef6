package subprocess

import (
	"os"
	"runtime"
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
