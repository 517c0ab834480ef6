package simulate

import (
	"context"
	"fmt"
)

// stopped is told by watch. Nobody may be interested: a stop that came from
// elsewhere must not keep watch from seeing the end.
func (p *process) stopped() {
	select {
	case p.stops <- struct{}{}:
	default:
	}
}

// suspend returns when the process, which has announced its pause, stands.
func (p *process) suspend(ctx context.Context) error {
	if p.pause == InProcess {
		return nil
	}
	if p.pause == StoppedByParent {
		if err := p.signalStop(); err != nil {
			return fmt.Errorf("simulate: stop writer %s: %w", p.name, err)
		}
	}
	select {
	case <-p.stops:
		return nil
	case <-p.ended:
		return p.gone()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// resume lets a suspended process go on.
func (p *process) resume() error {
	if p.pause != InProcess {
		if err := p.signalContinue(); err != nil {
			return fmt.Errorf("simulate: continue writer %s: %w", p.name, err)
		}
	}
	if p.pause == SelfStopped {
		return nil
	}
	return p.send(wake{})
}
