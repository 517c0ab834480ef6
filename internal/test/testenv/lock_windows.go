package testenv

import (
	"os"
	"syscall"
	"unsafe"
)

var lockFileEx = syscall.NewLazyDLL("kernel32.dll").NewProc("LockFileEx")

// exclusiveLock is LOCKFILE_EXCLUSIVE_LOCK of fileapi.h.
const exclusiveLock = 2

func waitLock(f *os.File) error {
	var whole syscall.Overlapped
	ok, _, err := lockFileEx.Call(f.Fd(), exclusiveLock, 0, 1, 0, uintptr(unsafe.Pointer(&whole)))
	if ok == 0 {
		return err
	}
	return nil
}
