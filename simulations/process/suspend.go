package process

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/internal/child"
)

// suspend gives p its order and returns when p stands, or is dead. Where p's
// unit was over before it came to the step it returns false: it was never
// there.
func (p *peer) suspend(ctx context.Context, o order, moment time.Duration) (stands bool, err error) {
	if o.Pause == StopTheWorld {
		o.After = moment
		if err := p.world.Hold(); err != nil {
			return false, err
		}
	}
	if err := p.Send(o); err != nil {
		return false, err
	}
	if moment > 0 && o.Pause != StopTheWorld {
		time.Sleep(moment)
		return true, p.hit(ctx, o.Pause)
	}
	if announced, err := p.announces(ctx, moment > 0); err != nil || !announced {
		return false, err
	}
	return true, p.stand(ctx, o.Pause)
}

// announces waits for p to say that it is about to stand. A unit that is over
// before means that it will not, unless it stands at a moment.
func (p *peer) announces(ctx context.Context, surely bool) (bool, error) {
	if surely {
		_, err := p.await(ctx, stopping)
		return true, err
	}
	e, err := p.await(ctx, stopping, answered)
	if e.Kind == answered {
		p.heard = append(p.heard, e)
	}
	return e.Kind == stopping, err
}

// stand returns when p, which has announced it, stands, or is dead.
func (p *peer) stand(ctx context.Context, pause Pause) error {
	switch {
	case pause == StopTheWorld:
		ctx, cancel := p.Alive(ctx)
		defer cancel()
		return p.world.Stands(ctx)
	case !child.CanStopThread:
		return p.hit(ctx, pause)
	}
	if err := p.Stands(ctx); err != nil || pause == SIGSTOP {
		return err
	}
	return p.hit(ctx, pause)
}

// hit stops or kills p from here, whatever it is at.
func (p *peer) hit(ctx context.Context, pause Pause) error {
	if pause == SIGKILL {
		p.Kill()
		return nil
	}
	if err := p.Stop(); err != nil {
		return err
	}
	return p.Stands(ctx)
}

// resume lets p, which stands, go on.
func (p *peer) resume(ctx context.Context, o order) error {
	if o.Pause == StopTheWorld {
		p.world.Drain()
		_, err := p.await(ctx, woke)
		return err
	}
	if err := p.Continue(); err != nil {
		return err
	}
	if child.CanStopThread || o.Step == "" {
		return nil
	}
	return p.Send(wake{})
}
