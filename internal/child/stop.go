package child

import (
	"context"
	"fmt"
)

// Stop sends SIGSTOP. The child stands some time later: see [Process.Stands].
// Where [CanStop] is false it is an error.
func (p *Process[T]) Stop() error {
	if err := signalStop(p.cmd.Process); err != nil {
		return fmt.Errorf("child: stop %s: %w", p.name, err)
	}
	return nil
}

// Stands returns when the child has been seen to stand, once for each time. An
// error says that it is gone instead, or is the cause of ctx's end.
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

// Continue lets a child that stands go on.
func (p *Process[T]) Continue() error {
	if err := signalContinue(p.cmd.Process); err != nil {
		return fmt.Errorf("child: continue %s: %w", p.name, err)
	}
	return nil
}

// stopped is told by watch. Nobody may be interested: a stop that came from
// elsewhere must not keep watch from seeing the end.
func (p *Process[T]) stopped() {
	select {
	case p.stops <- struct{}{}:
	default:
	}
}
