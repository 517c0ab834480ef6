package child

import (
	"context"
	"time"
)

const (
	// farewell bounds the end of an idle child.
	farewell = 5 * time.Second
	// lastWords bounds the reading of a dead child's standard error, whose other
	// end a process that it started may still have.
	lastWords = time.Second
)

// Kill ends the child with SIGKILL, stopped or not, and returns when it is
// gone. What it had said can still be had from Next.
func (p *Process[T]) Kill() {
	select {
	case <-p.ended: // its id may be somebody else's by now
	default:
		_ = p.cmd.Process.Kill() // its only error is that it is gone
		<-p.ended
	}
}

// End closes the child's standard input, at which an idle one finishes. One
// that has not within 5 s, or that ctx does not wait for, is killed. It returns
// when the child is gone, and what it had said with it.
func (p *Process[T]) End(ctx context.Context) {
	p.in.Close()
	timer := time.NewTimer(farewell)
	defer timer.Stop()
	for waiting := true; waiting; {
		select {
		case _, waiting = <-p.said: // or its last words would keep it
		case <-timer.C:
			waiting = false
		case <-ctx.Done():
			waiting = false
		}
	}
	select {
	case <-p.ended:
	case <-timer.C:
	case <-ctx.Done():
	}
	p.Kill()
	p.out.Close() // somebody else may have its other end
	for range p.said {
	}
}
