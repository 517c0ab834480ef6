package tokentest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/token"
)

const (
	warmUp = 2 * crowd  // grants until everybody stands in line
	turns  = 16 * crowd // grants that are counted
	jain   = 0.99
)

var queueRules = []rule{
	{"waiters in a crowd are served equally often, one at a time, under rising numbers", settled(servedEqually)},
	{"a resource has one unexpired holder at a time, handed over or not", oneHolderOfTheLine},
}

// turn is one grant in the order of the grants.
type turn struct {
	worker int
	number int64
}

// desk is where the holders of a crowd sign.
type desk struct {
	inside atomic.Int32
	mu     sync.Mutex
	seen   []turn
}

// sign reports whether all turns were taken.
func (d *desk) sign(t turn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = append(d.seen, t)
	return len(d.seen) >= warmUp+turns
}

// hazard L7
func servedEqually(p *probe) {
	var d desk
	p.crowded(func(ctx context.Context, worker int) error {
		for round, over := 0, false; !over; round++ {
			grant, err := p.wait(ctx, fmt.Sprintf("worker-%d:%d", worker, round), long)
			if err != nil {
				return err
			}
			if d.inside.Add(1) > 1 {
				return fmt.Errorf("%s was granted while another held it", grant.Token)
			}
			over = d.sign(turn{worker, grant.Token.Number})
			time.Sleep(p.settle / 16)
			d.inside.Add(-1)
			if err := p.iss.Release(ctx, grant.Token); err != nil {
				return err
			}
		}
		return nil
	})
	p.equal(d.seen)
}

func (p *probe) equal(seen []turn) {
	for i := 1; i < len(seen); i++ {
		p.above(seen[i-1].number, seen[i].number)
	}
	if p.err != nil {
		return
	}
	var counts [crowd]float64
	var sum, squares float64
	for _, t := range seen[warmUp : warmUp+turns] {
		counts[t.worker]++
	}
	for _, n := range counts {
		sum += n
		squares += n * n
	}
	if index := sum * sum / (crowd * squares); index < jain {
		p.suspectf("%d grants went to %d waiters as %v: Jain's index is %.3f, want %.2f", turns, crowd, counts, index, jain)
	}
}

// hazard R13
func oneHolderOfTheLine(p *probe) {
	p.visited(func(ctx context.Context, worker int, holder string) (token.Grant, error) {
		if worker%4 == 0 {
			return p.iss.Acquire(ctx, p.resource, holder, hurry)
		}
		ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(worker)*hurry, token.ErrHeld)
		defer cancel()
		return p.wait(ctx, holder, hurry)
	})
}
