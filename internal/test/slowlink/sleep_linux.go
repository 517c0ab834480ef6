package slowlink

import (
	"errors"
	"syscall"
	"time"
)

// preciseSleep makes this thread's sleeps end at most 1 µs late (prctl(2),
// PR_SET_TIMERSLACK; the kernel's default is 50 µs).
func preciseSleep() {
	const setTimerSlack, nanoseconds = 29, 1000
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, nanoseconds, 0) // after an error, links are slower
}

func sleep(d time.Duration) {
	left := syscall.NsecToTimespec(d.Nanoseconds())
	for errors.Is(syscall.Nanosleep(&left, &left), syscall.EINTR) {
	}
}
