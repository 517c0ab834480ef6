//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package child

import "syscall"

// attributes: a group of its own keeps a terminal's Ctrl-C for the parent, who
// ends its children in order. Where the parent itself is killed, the group is
// orphaned: if it is stopped then, POSIX has it sent SIGHUP and SIGCONT, and
// else it reads the end of its input.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
