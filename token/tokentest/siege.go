package tokentest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencepost/fencepost/token"
)

// besieged runs something while newcomers try all the time, none of whom may
// succeed. They all ask by Acquire, or all by Wait: who waits may be whom it
// takes to serve the line.
func (p *probe) besieged(acquire bool, run func()) {
	ctx, cancel := context.WithCancel(p.ctx)
	var crowd sync.WaitGroup
	barged := make([]error, 4)
	for i := range barged {
		crowd.Go(func() { barged[i] = p.barge(ctx, acquire, i) })
	}
	run()
	cancel()
	crowd.Wait()
	if err := errors.Join(barged...); err != nil {
		p.suspectf("%w", err)
	}
}

// barge gives back what it should not have been granted, so that the line goes
// on.
func (p *probe) barge(ctx context.Context, acquire bool, newcomer int) error {
	for try := 0; ctx.Err() == nil; try++ {
		grant, err := p.push(ctx, acquire, fmt.Sprintf("newcomer-%d:%d", newcomer, try))
		if err == nil {
			err = p.iss.Release(p.ctx, grant.Token)
			return errors.Join(fmt.Errorf("%s was granted to %q although others wait", grant.Token, grant.Token.Holder), err)
		}
		if !errors.Is(err, token.ErrHeld) && ctx.Err() == nil {
			return err
		}
		time.Sleep(pause / 2)
	}
	return nil
}

// push asks by Acquire, or by a Wait that is over soon.
func (p *probe) push(ctx context.Context, acquire bool, holder string) (token.Grant, error) {
	if acquire {
		return p.iss.Acquire(ctx, p.resource, holder, long)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 2*pause, token.ErrHeld)
	defer cancel()
	return p.wait(ctx, holder, long)
}
