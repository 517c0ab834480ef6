//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package main

import (
	"errors"
	"os"
	"syscall"
)

// errNoGroups: without process groups, what a command has started would run on
// when the lock is lost.
var errNoGroups = errors.New("this system has no process groups")

func (h *runHeld) work(streams, <-chan os.Signal) error { return errNoGroups }

func ownGroup() *syscall.SysProcAttr { return nil }

func killGroup(int) error { return errNoGroups }
