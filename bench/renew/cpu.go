//go:build !windows

package renew

import (
	"syscall"
	"time"
)

// clientCPU is what this process has used so far.
func clientCPU() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
