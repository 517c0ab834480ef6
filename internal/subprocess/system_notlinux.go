//go:build !linux

package subprocess

import "errors"

// CanStopThread reports whether [StopThread] works on this system.
const CanStopThread = false

// StopThread returns an error on this system, which has no tgkill(2).
func StopThread() error { return errors.New("subprocess: this system has no tgkill") }
