package child

import "syscall"

// attributes: a group of its own keeps a terminal's Ctrl-C for the parent, who
// ends its children in order. Where the parent itself is killed, they are too,
// stopped or not.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
