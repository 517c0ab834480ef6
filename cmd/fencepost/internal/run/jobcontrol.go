//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package run

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"
)

// terminal is the controlling terminal, if there is one. The kernel stops a process that
// reads the terminal or changes its settings outside the foreground process group. The
// program's group begins in the background, so that in `fencepost run … | less` the keys
// go to less. It becomes the foreground group when the kernel first stops it.
type terminal struct{ lent bool }

// ignoreSuspend keeps Ctrl-Z from stopping this process, which would stop the renewals.
func ignoreSuspend() { signal.Notify(make(chan os.Signal, 1), syscall.SIGTSTP) }

// stopped is called when a signal has stopped the program, the watchdog or an orphan.
func (j *job) stopped(child int, by syscall.Signal) {
	switch {
	case child == j.watchdog:
		_ = syscall.Kill(child, syscall.SIGCONT)
	case child != j.group: // an orphan
	case by == syscall.SIGTTIN, by == syscall.SIGTTOU:
		if j.terminal.lend(j.group) {
			j.signal(syscall.SIGCONT)
		}
	case by == syscall.SIGTSTP: // a stopped program must not hold a lock
		j.signal(syscall.SIGCONT)
	}
}

// lend makes group the foreground group, if this process is in the foreground group now.
// It reports whether group is the foreground group afterwards.
func (c *terminal) lend(group int) bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	if foreground, err := ioctl(tty, syscall.TIOCGPGRP, 0); err != nil || foreground != syscall.Getpgrp() {
		return foreground == group
	}
	signal.Ignore(syscall.SIGTTOU) // or takeBack would stop this process
	_, err = ioctl(tty, syscall.TIOCSPGRP, group)
	c.lent = err == nil
	return c.lent
}

// takeBack makes this process's group the foreground group again, for a script that
// continues when the program has ended.
func (c *terminal) takeBack() {
	if tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0); c.lent && err == nil {
		defer tty.Close()
		_, _ = ioctl(tty, syscall.TIOCSPGRP, syscall.Getpgrp())
	}
}

// ioctl makes tcgetpgrp(3) and tcsetpgrp(3).
func ioctl(tty *os.File, request uintptr, group int) (int, error) {
	id := int32(group)
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, tty.Fd(), request, uintptr(unsafe.Pointer(&id)))
	if errno != 0 {
		return 0, errno
	}
	return int(id), nil
}
