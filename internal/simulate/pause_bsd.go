//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package simulate

import "errors"

const bestPause = StoppedByParent

func stopThread() error { return errors.New("simulate: this system has no tgkill") }
