//go:build !linux

package child

import "os"

// CanStopWorld reports whether a [World] can be had here.
const CanStopWorld = false

func resize(*os.File, uintptr) error { return ErrNoWorld }

func empty(*os.File) error { return ErrNoWorld }

// StopWorld returns [ErrNoWorld] here.
func StopWorld(uintptr) error { return ErrNoWorld }
