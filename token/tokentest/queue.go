package tokentest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencepost/fencepost/token"
)

var queueRules = []rule{
	{"a Wait for a free resource is granted at once", settled(waitOfFree)},
	{"waiters are served in the order of their calls", settled(servedInOrder)},
	{"a release hands the resource to the head of the queue, under a greater number", settled(releaseHandsOver)},
	{"an expired lease passes to the head of the queue", settled(expiryHandsOver)},
	{"a lease that is renewed is not handed over", settled(renewedIsKept)},
	{"a Wait with a name that is not valid in a token is refused", settled(incompleteWaitIsRefused)},
}

func waitOfFree(p *probe) {
	grant := p.handed(p.waits("a", long))
	if p.err != nil {
		return
	}
	if err := grant.Token.Validate(); err != nil {
		p.failf("the token is incomplete: %w", err)
	}
	if left := time.Until(grant.Until); left > long {
		p.failf("Until is %s away, later than the ttl %s", left, long)
	}
	p.held("a")
	p.released(grant.Token)
	p.above(grant.Token.Number, p.handed(p.waits("b", long)).Token.Number)
}

// A queue that serves eight waiters in random order passes once in 40,320 runs.
func servedInOrder(p *probe) {
	var queue []*waiting
	tok := p.granted("holder", long).Token
	for i := range 8 {
		queue = append(queue, p.waits(fmt.Sprintf("waiter-%d", i), long))
	}
	for i := range queue {
		p.released(tok)
		w := p.first()
		if p.err == nil && w != queue[i] {
			p.suspectf("%q was served before %q, which had called Wait earlier", w.holder, queue[i].holder)
		}
		tok = p.handed(w).Token
	}
}

func releaseHandsOver(p *probe) {
	tok := p.granted("a", long).Token
	queue := []*waiting{p.waits("b", long), p.waits("c", long)}
	for _, w := range queue {
		p.released(tok)
		next := p.handed(w).Token
		p.above(tok.Number, next.Number)
		p.held(w.holder)
		p.notRenewed(tok)
		p.notReleased(tok)
		tok = next
	}
	p.released(tok)
	p.free()
}

// hazard G16
func incompleteWaitIsRefused(p *probe) {
	for _, names := range incomplete(p.resource) {
		at := p.at(names[0])
		w := at.waits(names[1], long)
		at.returned(w)
		if at.err == nil && !errors.Is(w.err, token.ErrInvalid) {
			p.failf("Wait for %q by %q returned %v, want ErrInvalid", names[0], names[1], w.err)
		}
	}
	p.free()
}

func expiryHandsOver(p *probe) {
	first := p.granted("a", p.soon())
	b, c := p.waits("b", p.soon()), p.waits("c", long)
	second := p.handed(b)
	p.notBefore(first.Until)
	p.above(first.Token.Number, second.Token.Number)
	third := p.handed(c)
	p.notBefore(second.Until)
	p.above(second.Token.Number, third.Token.Number)
	p.held("c")
}

func renewedIsKept(p *probe) {
	p.inTime(func(at *probe, ttl time.Duration) error {
		tok := at.granted("a", ttl).Token
		w := at.waits("b", long)
		until, err := at.iss.Renew(at.ctx, tok, ttl)
		if err == nil {
			at.handed(w)
			at.notBefore(until)
		}
		return err
	})
}

var overtakingRules = []rule{
	{"an Acquire does not overtake the queue, not even the last holder's", settled(acquireBehindTheQueue)},
	{"no caller overtakes the queue during a release", settled(bargeAtRelease)},
	{"no caller overtakes the queue during an expiry", settled(bargeAtExpiry)},
}

// hazard L7
func acquireBehindTheQueue(p *probe) {
	tok := p.granted("a", long).Token
	queue := []*waiting{p.waits("b", long), p.waits("c", long)}
	for _, w := range queue {
		p.released(tok)
		p.outside(tok.Holder)
		p.outside("newcomer")
		tok = p.handed(w).Token
	}
}

// outside calls Acquire while there are waiters.
func (p *probe) outside(holder string) {
	if p.err != nil {
		return
	}
	grant, err := p.iss.Acquire(p.ctx, p.resource, holder, long)
	switch {
	case err == nil:
		p.suspectf("Acquire by %q was granted number %d although there are waiters", holder, grant.Token.Number)
	case !errors.Is(err, token.ErrHeld):
		p.failf("Acquire by %q returned %v, want ErrHeld", holder, err)
	}
}

// hazard L7
func bargeAtRelease(p *probe) {
	for round := range 8 {
		at := p.at(fmt.Sprintf("%s/%d", p.resource, round))
		tok := at.granted("a", long).Token
		w := at.waits("b", long)
		at.besieged(round%2 == 0, func() {
			at.released(tok)
			at.handed(w)
		})
	}
}

// hazard L7
func bargeAtExpiry(p *probe) {
	for round := range 2 {
		at := p.at(fmt.Sprintf("%s/%d", p.resource, round))
		at.granted("a", p.soon())
		w := at.waits("b", long)
		at.besieged(round%2 == 0, func() { at.handed(w) })
	}
}

// besieged calls run while newcomers try all the time to acquire. None of them may
// succeed. They all call Acquire, or all call Wait, since a Wait may be what makes the
// issuer serve the queue.
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

// barge tries to acquire. If it is granted the resource, it releases it, so that the
// queue continues, and returns an error.
func (p *probe) barge(ctx context.Context, acquire bool, newcomer int) error {
	for try := 0; ctx.Err() == nil; try++ {
		grant, err := p.push(ctx, acquire, fmt.Sprintf("newcomer-%d:%d", newcomer, try))
		if err == nil {
			err = p.iss.Release(p.ctx, grant.Token)
			return errors.Join(fmt.Errorf("%s was granted to %q although there are waiters", grant.Token, grant.Token.Holder), err)
		}
		if !errors.Is(err, token.ErrHeld) && ctx.Err() == nil {
			return err
		}
		time.Sleep(pause / 2)
	}
	return nil
}

// push calls Acquire, or a Wait with a short timeout. If the resource is handed to that
// Wait while it leaves and cannot be passed on, the grant expires soon.
func (p *probe) push(ctx context.Context, acquire bool, holder string) (token.Grant, error) {
	if acquire {
		return p.iss.Acquire(ctx, p.resource, holder, long)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 2*pause, token.ErrHeld)
	defer cancel()
	return p.wait(ctx, holder, 2*short)
}
