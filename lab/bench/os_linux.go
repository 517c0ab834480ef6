package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
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

// ownCPU returns the CPU time of this process so far.
func ownCPU() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// childrenCPU returns the CPU time of the process's living children so far. schedstat has
// it in nanoseconds, stat in ticks of 10 ms.
func childrenCPU(parent int) (sum time.Duration, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if of, err := parentOf(pid); err != nil || of != parent {
			continue // another user's, or it has ended
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
		if err != nil {
			continue
		}
		var onCPU int64
		if _, err := fmt.Sscan(string(text), &onCPU); err != nil {
			return 0, err
		}
		sum += time.Duration(onCPU)
	}
	return sum, nil
}

// parentOf reads the fourth field of stat, which is the second field after the name. The
// name is in parentheses and may contain parentheses.
func parentOf(pid int) (parent int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	var state string
	_, err = fmt.Sscan(string(text[bytes.LastIndexByte(text, ')')+1:]), &state, &parent)
	return parent, err
}
