package main

import (
	"errors"
	"runtime"
	"syscall"
)

// Of prctl(2).
const (
	prSetPdeathsig      = 1
	prSetChildSubreaper = 36
)

// dieWith has the kernel kill this process, and what it turns into by exec, when
// parent dies: where both that and the minder are killed, the program goes too,
// if not what it has started. It is an attribute of the thread.
func dieWith(parent int) error {
	runtime.LockOSThread()
	if err := prctl(prSetPdeathsig, uintptr(syscall.SIGKILL)); err != nil {
		return err
	}
	if syscall.Getppid() != parent {
		return errors.New("the parent has died")
	}
	return nil
}

// adopt makes this process wait for what the program leaves behind, dead or
// alive: not every first process of a container does.
func adopt() { _ = prctl(prSetChildSubreaper, 1) }

func prctl(option, value uintptr) error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, option, value, 0); errno != 0 {
		return errno
	}
	return nil
}
