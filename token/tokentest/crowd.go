package tokentest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencepost/fencepost/token"
)

const (
	crowd  = 8 // callers at once
	rounds = 8 // grants to each of them
)

var crowdRules = []rule{
	{"numbers are unique and rise in the order of the grants, however many ask at once", numbersRiseInACrowd},
	{"a resource has one unexpired holder at a time", oneHolderAtATime},
}

// Each holder notes its number while it holds: where there is one holder at a
// time, the notes stand in the order of the grants.
func numbersRiseInACrowd(p *probe) {
	var mu sync.Mutex
	var notes []int64
	p.crowded(func(ctx context.Context, worker int) error {
		for round := range rounds {
			tok, err := p.insist(ctx, fmt.Sprintf("worker-%d:%d", worker, round))
			if err != nil {
				return err
			}
			mu.Lock()
			notes = append(notes, tok.Number)
			mu.Unlock()
			if err := p.iss.Release(ctx, tok); err != nil {
				return err
			}
		}
		return nil
	})
	for i := 1; i < len(notes); i++ {
		p.above(notes[i-1], notes[i])
	}
}

func (p *probe) insist(ctx context.Context, holder string) (token.Token, error) {
	for {
		grant, err := p.iss.Acquire(ctx, p.resource, holder, long)
		if !errors.Is(err, token.ErrHeld) {
			return grant.Token, err
		}
		time.Sleep(pause)
	}
}

// crowded runs many workers at once and waits for them.
func (p *probe) crowded(work func(ctx context.Context, worker int) error) {
	ctx, cancel := context.WithTimeout(p.ctx, 2*patience)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, crowd)
	for worker := range crowd {
		wg.Go(func() { errs[worker] = work(ctx, worker) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		p.failf("%w", err)
	}
}
