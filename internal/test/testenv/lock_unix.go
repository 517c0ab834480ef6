//go:build !windows

package testenv

import (
	"errors"
	"os"
	"syscall"
)

func waitLock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
