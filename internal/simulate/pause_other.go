//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package simulate

import "errors"

const bestPause = InProcess

func stopThread() error { return errors.New("simulate: this system has no SIGSTOP") }
