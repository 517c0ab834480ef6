package run

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Options of prctl(2).
const (
	prSetPdeathsig      = 1
	prSetChildSubreaper = 36
)

// dieWithParent makes the kernel kill this process when parent dies, also after an exec.
// If both the parent and the watchdog are killed, the program ends; processes that it has
// started do not. The setting belongs to the thread.
func dieWithParent(parent int) error {
	runtime.LockOSThread()
	if err := prctl(prSetPdeathsig, uintptr(syscall.SIGKILL)); err != nil {
		return err
	}
	if syscall.Getppid() != parent {
		return errors.New("the parent has died")
	}
	return nil
}

// becomeSubreaper makes this process the parent of processes that the program leaves
// behind, so that it can wait for them: the first process of a container may not wait.
func becomeSubreaper() { _ = prctl(prSetChildSubreaper, 1) }

// self returns a command of the binary that runs, even if its file was replaced.
func self(command string) *exec.Cmd {
	return &exec.Cmd{Path: "/proc/self/exe", Args: []string{os.Args[0], command}}
}

func prctl(option, value uintptr) error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, option, value, 0); errno != 0 {
		return errno
	}
	return nil
}
