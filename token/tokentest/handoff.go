package tokentest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencepost/fencepost/token"
)

var handoffRules = []rule{
	{"no other holder is granted the resource before the Until of a hand-off", settled(untilOfHandoff)},
	{"a lease that was handed over can be renewed for the whole ttl", settled(handoffIsRenewed)},
	{"a lease that was handed over is granted to its holder again", settled(handoffIsGrantedAgain)},
	{"the holder does not wait for its own resource", settled(holderWaits)},
}

// hazard R13
func untilOfHandoff(p *probe) {
	for i, next := range []func(at *probe, c *waiting){
		func(at *probe, c *waiting) { at.handed(c) },
		func(at *probe, c *waiting) { at.left(c); at.awaited("d", long) },
	} {
		at := p.at(fmt.Sprintf("%s/%d", p.resource, i))
		tok := at.granted("a", long).Token
		b, c := at.waits("b", at.soon()), at.waits("c", at.soon())
		at.released(tok)
		until := at.handed(b).Until
		if p.err == nil && monotonic(time.Now()) && !monotonic(until) {
			p.failf("Until has no monotonic reading: a step of the wall clock would move it")
		}
		next(at, c)
		at.notBefore(until)
	}
}

func handoffIsRenewed(p *probe) {
	p.inTime(func(at *probe, ttl time.Duration) error {
		tok := at.granted("a", long).Token
		w := at.waits("b", ttl)
		at.released(tok)
		tok = at.handed(w).Token
		sent := time.Now()
		until, err := at.iss.Renew(at.ctx, tok, long)
		if err == nil {
			at.within(sent, until, long)
			at.outlast(ttl)
			at.held("b")
		}
		return err
	})
}

// hazard R6
func handoffIsGrantedAgain(p *probe) {
	tok := p.granted("a", long).Token
	b, c := p.waits("b", long), p.waits("c", long)
	p.released(tok)
	tok = p.handed(b).Token
	again := p.granted("b", long).Token
	if p.err == nil && again.Number < tok.Number {
		p.failf("the holder acquired again and was granted %d after %d", again.Number, tok.Number)
	}
	p.held("b")
	p.released(again)
	p.above(again.Number, p.handed(c).Token.Number)
}

// hazard R6
func holderWaits(p *probe) {
	tok := p.granted("a", long).Token
	b := p.waits("b", long)
	own := p.waits("a", long)
	own.holds = true
	again := p.handed(own).Token
	if p.err == nil && again.Number < tok.Number {
		p.failf("the holder acquired again and was granted %d after %d", again.Number, tok.Number)
	}
	p.held("a")
	p.released(again)
	p.above(again.Number, p.handed(b).Token.Number)
	p.held("b")
}

var leaveRules = []rule{
	{"a waiter whose context ends leaves the queue, and its error has the cause and the holder", settled(leavesTheQueue)},
	{"a waiter that left can join the queue again", settled(comesBack)},
	{"a Wait under a cancelled context returns soon and grants nothing that lasts", cancelledWait},
	{"a waiter that leaves during its hand-off passes the resource to the next waiter", settled(leavesInTheMoment)},
}

// The ttl of the waiters that leave is longer than the test waits, so that a grant that
// is kept for them is detected.
func leavesTheQueue(p *probe) {
	tok := p.granted("a", long).Token
	b, c, d := p.waits("b", longer), p.waits("c", long), p.waits("d", longer)
	p.left(b)
	p.left(d)
	var held *token.HeldError
	switch {
	case p.err != nil:
	case !errors.As(b.err, &held):
		p.suspectf("Wait returned %v, want a *HeldError too", b.err)
	case held.Resource != p.resource || held.Holder != "" && held.Holder != "a":
		p.failf("the HeldError names %q of %q, want %q of %q", held.Holder, held.Resource, "a", p.resource)
	}
	p.released(tok)
	tok = p.handed(c).Token
	p.held("c")
	p.released(tok)
	p.awaited("e", long)
}

func comesBack(p *probe) {
	tok := p.granted("a", long).Token
	p.left(p.waits("b", longer))
	c, b := p.waits("c", long), p.waits("b", long)
	p.released(tok)
	first := p.first()
	if p.err == nil && first != c {
		p.suspectf("%q was served before %q, which had called Wait earlier", first.holder, c.holder)
	}
	p.released(p.handed(c).Token)
	p.handed(b)
	p.held("b")
}

func cancelledWait(p *probe) {
	p.cancelled("Wait", func(ctx context.Context) error {
		_, err := p.wait(ctx, "a", longer)
		return err
	})
	p.awaited("b", long)
}

// The waiter leaves at a random time during the release.
func leavesInTheMoment(p *probe) {
	took := time.Microsecond
	for round := range 24 {
		at := p.at(fmt.Sprintf("%s/%d", p.resource, round))
		tok := at.granted("a", long).Token
		b := at.waits("b", longer)
		c := &waiting{}
		if round%2 == 0 {
			c = at.waits("c", long)
		}
		time.AfterFunc(rand.N(2*took), func() { b.leave(errLeft) })
		start := time.Now()
		at.released(tok)
		took = max(time.Since(start), time.Microsecond)
		at.handedOn(b, c)
	}
}

// handedOn checks the end of a round in which b was handed the resource, or left, or both
// at once: c must then have the resource, or a newcomer if c was never in the queue.
func (p *probe) handedOn(b, c *waiting) {
	p.returned(b)
	if p.err == nil && b.err == nil {
		p.released(p.handed(b).Token)
	} else {
		p.left(b)
	}
	if c.done == nil {
		p.awaited("d", long)
		return
	}
	p.handed(c)
	p.held("c")
}
