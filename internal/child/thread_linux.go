package child

import (
	"os"
	"runtime"
	"syscall"
)

// CanStopThread reports whether [StopThread] works here.
const CanStopThread = true

// StopThread stops this process before it returns. SIGSTOP stops all threads
// whoever gets it, but only the one that gets it stops at once: kill(2) lets
// the kernel choose, and the caller can be many instructions further, a write
// say, when the stop reaches it. So the signal goes to the calling thread, and
// tgkill(2) does not return into a thread with a stop pending.
func StopThread() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return os.NewSyscallError("tgkill", syscall.Tgkill(os.Getpid(), syscall.Gettid(), syscall.SIGSTOP))
}
