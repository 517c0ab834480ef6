package tokentest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencepost/fencepost/token"
)

var leaveRules = []rule{
	{"a waiter whose context ends leaves the line, and says why and who has the resource", settled(leavesTheLine)},
	{"a waiter who left can stand in line again", settled(comesBack)},
	{"a Wait under a cancelled context returns soon and grants nothing that lasts", cancelledWait},
	{"a waiter who leaves in the moment of the hand-over passes it on", settled(leavesInTheMoment)},
}

// The ttl of those who leave is longer than our patience: what is kept for
// them shows.
func leavesTheLine(p *probe) {
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
		p.suspectf("%q was served before %q, who had asked before", first.holder, c.holder)
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

// The moment is somewhere in the time that a release takes.
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
		at.passedOn(b, c)
	}
}

// passedOn is what must follow where b was handed the resource, or left, or both
// at once: c has it in the end, or whoever asks where c never stood in line.
func (p *probe) passedOn(b, c *waiting) {
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
