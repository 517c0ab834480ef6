package child

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
)

// fSetPipeSize is F_SETPIPE_SZ of fcntl(2); a page is the least.
const fSetPipeSize = 1031

// CanStopWorld reports whether a [World] can be had here.
const CanStopWorld = true

// resize sets how many bytes the pipe holds.
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
		return fmt.Errorf("child: F_SETPIPE_SZ: %w", errno)
	}
	return err
}

// empty reads what is in the pipe, without waiting for more.
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

// StopWorld is called in the child, with the descriptor of the parent's
// [World]. It returns when the parent has drained it. In between no goroutine
// of this process runs, and no timer: only calls into the kernel that were
// under way go on to their end there.
//
// The descriptor must block: the runtime takes a full pipe that does not for an
// error, and would run through.
func StopWorld(fd uintptr) error {
	if err := syscall.SetNonblock(int(fd), false); err != nil {
		return fmt.Errorf("child: world: %w", err)
	}
	debug.WriteHeapDump(fd)
	return nil
}
