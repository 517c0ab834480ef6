package process

import (
	"fmt"

	"github.com/fencepost/fencepost/internal/child"
)

// Pause is how a writer is stopped.
type Pause string

const (
	// SIGSTOP stops the process, at a step by a signal to its very thread: not
	// one instruction runs on.
	SIGSTOP Pause = "SIGSTOP"
	// StopTheWorld stops the Go program and not the process, as a garbage
	// collection does: goroutines and timers stand, the kernel goes on with
	// what it was asked for. Linux.
	StopTheWorld Pause = "stop-the-world"
	// SIGKILL ends the process, and another one takes its place.
	SIGKILL Pause = "SIGKILL"
)

func (p Pause) check() error {
	switch p {
	case SIGSTOP, SIGKILL:
		return nil
	case StopTheWorld:
		if child.CanStopWorld {
			return nil
		}
		return child.ErrNoWorld
	}
	return fmt.Errorf("process: no such pause: %q", p)
}
