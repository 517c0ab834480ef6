//go:build !linux

package subprocess

import (
	"errors"
	"os"
)

// CanStopThread reports whether [StopThread] works on this system.
const CanStopThread = false

// StopThread returns an error on this system, which has no tgkill(2).
func StopThread() error { return errors.New("subprocess: this system has no tgkill") }

// CanStopWorld reports whether [World] works on this system.
const CanStopWorld = false

func resize(*os.File, uintptr) error { return ErrNoWorld }

func empty(*os.File) error { return ErrNoWorld }

// StopWorld returns [ErrNoWorld] on this system.
func StopWorld(uintptr) error { return ErrNoWorld }
