package child

import (
	"context"
	"fmt"
)

// Send writes message as a line of JSON to the child's standard input. After an
// error the child is gone.
func (p *Process[T]) Send(message any) error {
	if p.orders.Encode(message) != nil { // nobody reads any more
		p.Kill()
		return p.gone()
	}
	return nil
}

// Next returns the next value that the child says. When it says no more, the
// error says how it went; when ctx ends, it is its cause.
func (p *Process[T]) Next(ctx context.Context) (T, error) {
	select {
	case said, more := <-p.said:
		if !more {
			<-p.ended
			return said, p.gone()
		}
		return said, nil
	case <-ctx.Done():
		var nothing T
		return nothing, context.Cause(ctx)
	}
}

// Alive returns a context that also ends when the child is gone, with an error
// that says how for its cause. It must be cancelled.
func (p *Process[T]) Alive(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-p.ended:
			cancel(p.gone())
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// Ended is closed when the child is gone.
func (p *Process[T]) Ended() <-chan struct{} { return p.ended }

// Pid is the child's process id, which is somebody else's sometime after it is
// gone.
func (p *Process[T]) Pid() int { return p.cmd.Process.Pid }

func (p *Process[T]) gone() error {
	return fmt.Errorf("child: %s is gone: %s: %s", p.name, p.status, p.errors.String())
}
