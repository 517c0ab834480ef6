package subprocess

import (
	"context"
	"fmt"
	"time"
)

// Pause is the way in which a child is paused at a point that it chooses, from
// [Parent.Pause] to [Process.Resume].
type Pause int

const (
	// SelfStopped means that the child sends SIGSTOP to its own thread, so that no
	// further instruction runs before the whole process is stopped. Linux only.
	SelfStopped Pause = iota + 1
	// StoppedByParent means that the child waits for a message, and the parent stops it
	// with SIGSTOP while it waits. For systems that cannot signal threads.
	StoppedByParent
	// InProcess means that the child waits for a message, and the process is not stopped.
	// For systems without SIGSTOP.
	InProcess
)

// BestPause returns the best Pause of this system.
func BestPause() Pause {
	switch {
	case CanStopThread:
		return SelfStopped
	case CanStop:
		return StoppedByParent
	}
	return InProcess
}

// String returns "SIGSTOP" or "in-process".
func (p Pause) String() string {
	if p == InProcess {
		return "in-process"
	}
	return "SIGSTOP"
}

// wake is the message that ends a pause which SIGCONT alone does not end.
type wake struct{}

// Pause returns after the parent has resumed this process. The child must report that it
// will pause before it calls Pause.
func (p *Parent) Pause(pause Pause) error {
	if pause == SelfStopped {
		return StopThread()
	}
	return p.Receive(new(wake))
}

// Suspend returns when the child, which has reported that it will pause, is paused.
func (p *Process[T]) Suspend(ctx context.Context, pause Pause) error {
	switch pause {
	case InProcess:
		return nil
	case StoppedByParent:
		if err := p.Stop(); err != nil {
			return err
		}
	}
	return p.Stands(ctx)
}

// Resume continues a suspended child.
func (p *Process[T]) Resume(pause Pause) error {
	if pause != InProcess {
		if err := p.Continue(); err != nil {
			return err
		}
	}
	if pause == SelfStopped {
		return nil
	}
	return p.Send(wake{})
}

// Stop sends SIGSTOP. The child is stopped some time later: see [Process.Stands]. If
// [CanStop] is false, Stop returns an error.
func (p *Process[T]) Stop() error {
	if err := signalStop(p.cmd.Process); err != nil {
		return fmt.Errorf("subprocess: stop %s: %w", p.name, err)
	}
	return nil
}

// Stands returns nil when the child is stopped, once for each stop. It returns an error
// if the child has ended, and the cause of ctx if ctx ends first.
func (p *Process[T]) Stands(ctx context.Context) error {
	select {
	case <-p.stops:
		return nil
	case <-p.ended:
		return p.gone()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Continue continues a stopped child.
func (p *Process[T]) Continue() error {
	if err := signalContinue(p.cmd.Process); err != nil {
		return fmt.Errorf("subprocess: continue %s: %w", p.name, err)
	}
	return nil
}

// stopped is called by watch. It does not wait for a receiver: a stop that was not caused
// by this package has none, and watch must still see the end of the child.
func (p *Process[T]) stopped() {
	select {
	case p.stops <- struct{}{}:
	default:
	}
}

// Within returns the context of a step that only a hang does not end within limit. Its
// cause then states that.
func Within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("subprocess: nothing happened within %s", limit))
}
