//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package subprocess

import "syscall"

// attributes puts the child into a process group of its own, so that a terminal's Ctrl-C
// reaches only the parent, which ends its children in order. If the parent is killed, the
// group is orphaned. A stopped child then gets SIGHUP and SIGCONT, as POSIX requires; a
// running child reads the end of its input.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
