package renew

import (
	"syscall"
	"time"
)

// clientCPU is what this process has used so far. The times of a process are
// durations in units of 100 ns.
func clientCPU() (time.Duration, error) {
	self, err := syscall.GetCurrentProcess()
	if err != nil {
		return 0, err
	}
	var created, exited, kernel, user syscall.Filetime
	if err := syscall.GetProcessTimes(self, &created, &exited, &kernel, &user); err != nil {
		return 0, err
	}
	return duration(kernel) + duration(user), nil
}

func duration(t syscall.Filetime) time.Duration {
	return 100 * time.Duration(int64(t.HighDateTime)<<32|int64(t.LowDateTime))
}
