//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package main

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"
)

// console is the terminal, if there is one. Only the group in its foreground may
// read it or set it up: any other is stopped. The command's is not, so that in
// `fencepost run … | less` the keys are for less; it is lent the terminal when
// it first asks.
type console struct{ lent bool }

// unsuspended keeps a Ctrl-Z from stopping this process, and with it the renewals.
func unsuspended() { signal.Notify(make(chan os.Signal, 1), syscall.SIGTSTP) }

// stopped is told that the command stands.
func (j *job) stopped(by syscall.Signal) {
	switch by {
	case syscall.SIGTTIN, syscall.SIGTTOU:
		if j.console.lend(j.group) {
			j.signal(syscall.SIGCONT)
		}
	case syscall.SIGTSTP: // a lock is not held by those who sleep
		j.signal(syscall.SIGCONT)
	}
}

// lend reports whether group has the terminal now. This process must have it.
func (c *console) lend(group int) bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	if foreground, err := ioctl(tty, syscall.TIOCGPGRP, 0); err != nil || foreground != syscall.Getpgrp() {
		return foreground == group
	}
	signal.Ignore(syscall.SIGTTOU) // or taking it back would stop this process
	_, err = ioctl(tty, syscall.TIOCSPGRP, group)
	c.lent = err == nil
	return c.lent
}

// takeBack is for the script that runs on when the program has ended.
func (c *console) takeBack() {
	if tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0); c.lent && err == nil {
		defer tty.Close()
		_, _ = ioctl(tty, syscall.TIOCSPGRP, syscall.Getpgrp())
	}
}

// ioctl is tcgetpgrp(3) and tcsetpgrp(3).
func ioctl(tty *os.File, request uintptr, group int) (int, error) {
	id := int32(group)
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, tty.Fd(), request, uintptr(unsafe.Pointer(&id)))
	if errno != 0 {
		return 0, errno
	}
	return int(id), nil
}
