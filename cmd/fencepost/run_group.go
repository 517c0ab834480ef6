//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package main

import "syscall"

// errNoGroups is for other systems.
var errNoGroups error

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func killGroup(group int) error {
	if group <= 1 { // nobody yet; -0 would be this process's own, and -1 everybody
		return nil
	}
	return syscall.Kill(-group, syscall.SIGKILL)
}
