package simulate

import (
	"encoding/json"
	"fmt"

	"github.com/fencepost/fencepost/internal/child"
)

// Pause is how writer A is stopped. The zero Pause is the best this system has.
type Pause int

const (
	// SelfStopped means that A stops itself with SIGSTOP, sent to its own
	// thread, so that not one instruction more runs before the whole process
	// stands. Linux.
	SelfStopped Pause = iota + 1
	// StoppedByParent means that A waits for a byte, and is stopped with SIGSTOP
	// while it waits. Where threads cannot be signalled.
	StoppedByParent
	// InProcess means that A waits for a byte and renews no lease meanwhile. The
	// process itself runs on. Where there is no SIGSTOP.
	InProcess
)

// String returns "SIGSTOP" or "in-process".
func (p Pause) String() string {
	if p == InProcess {
		return "in-process"
	}
	return "SIGSTOP"
}

// orBest replaces the zero Pause.
func (p Pause) orBest() Pause {
	switch {
	case p != 0:
		return p
	case child.CanStopThread:
		return SelfStopped
	case child.CanStop:
		return StoppedByParent
	}
	return InProcess
}

// asleep returns when the writer has been continued.
func (p Pause) asleep(orders *json.Decoder) error {
	if p == SelfStopped {
		return child.StopThread()
	}
	var w wake
	if err := orders.Decode(&w); err != nil {
		return fmt.Errorf("simulate: while paused: %w", err)
	}
	return nil
}
