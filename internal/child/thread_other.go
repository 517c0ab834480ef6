//go:build !linux

package child

import "errors"

// CanStopThread reports whether [StopThread] works here.
const CanStopThread = false

// StopThread returns an error here: it takes tgkill(2).
func StopThread() error { return errors.New("child: this system has no tgkill") }
