package tokentest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fencepost/fencepost/token"
)

var raiseRaceRules = []rule{
	{"of Raises at once the greatest is kept", raisesAtOnce},
	{"numbers rise in the order of the grants, whoever raises meanwhile", raisesAmongGrants},
}

// One that says ErrLost has seen a greater number.
func raisesAtOnce(p *probe) {
	for round := range 8 {
		at := p.at(fmt.Sprintf("%s/%d", p.resource, round))
		last := at.number("a")
		at.crowded(func(_ context.Context, worker int) error {
			number := last + int64(1+(worker*5)%crowd)*minute
			return unless(at.raise(number), token.ErrLost)
		})
		at.above(last+crowd*minute, at.number("b"))
	}
}

// Each Raise is to a little above a number that was just granted, so that it
// meets grants of the same number; far ahead of the clock, which would hide that
// a number fell.
func raisesAmongGrants(p *probe) {
	notes := &notes{numbers: []int64{p.raised(p.number("a"))}}
	p.crowded(func(ctx context.Context, worker int) error {
		for round := range 2 * rounds {
			err := p.raiseOrGrant(ctx, notes, worker, round)
			if err != nil {
				return err
			}
		}
		return nil
	})
	for i := 1; i < len(notes.numbers); i++ {
		p.above(notes.numbers[i-1], notes.numbers[i])
	}
}

func (p *probe) raiseOrGrant(ctx context.Context, notes *notes, worker, round int) error {
	if worker%2 == 0 {
		defer time.Sleep(pause)
		return unless(p.iss.(token.Raiser).Raise(ctx, p.resource, notes.last()+2), token.ErrLost)
	}
	tok, err := p.insist(ctx, fmt.Sprintf("worker-%d:%d", worker, round))
	if err != nil {
		return err
	}
	notes.add(tok.Number)
	time.Sleep(rand.N(pause))
	return p.iss.Release(ctx, tok)
}

// notes are the numbers that holders wrote down while they held.
type notes struct {
	mu      sync.Mutex
	numbers []int64
}

func (n *notes) add(number int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.numbers = append(n.numbers, number)
}

func (n *notes) last() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.numbers[len(n.numbers)-1]
}
