package tokentest

import (
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/token"
)

var lineRules = []rule{
	{"a Wait for a free resource is granted at once", settled(waitOfFree)},
	{"waiters are served in the order in which they asked", settled(servedInOrder)},
	{"a release hands the resource to the head of the line, under a greater number", settled(releaseHandsOver)},
	{"an expired lease passes to the head of the line", settled(expiryHandsOver)},
	{"a lease that is renewed is not handed over", settled(renewedIsKept)},
	{"what no token can carry stands in no line", settled(incompleteWaitIsRefused)},
}

func waitOfFree(p *probe) {
	grant := p.handed(p.waits("a", long))
	if p.err != nil {
		return
	}
	if err := grant.Token.Check(); err != nil {
		p.failf("the token is incomplete: %w", err)
	}
	if left := time.Until(grant.Until); left > long {
		p.failf("Until is %s away, later than the ttl %s", left, long)
	}
	p.held("a")
	p.released(grant.Token)
	p.above(grant.Token.Number, p.handed(p.waits("b", long)).Token.Number)
}

// Eight who are served in any order come in this one once in 40,320 times.
func servedInOrder(p *probe) {
	var line []*waiting
	tok := p.granted("holder", long).Token
	for i := range 8 {
		line = append(line, p.waits(fmt.Sprintf("waiter-%d", i), long))
	}
	for i := range line {
		p.released(tok)
		w := p.first()
		if p.err == nil && w != line[i] {
			p.suspectf("%q was served before %q, who had asked before", w.holder, line[i].holder)
		}
		tok = p.handed(w).Token
	}
}

func releaseHandsOver(p *probe) {
	tok := p.granted("a", long).Token
	line := []*waiting{p.waits("b", long), p.waits("c", long)}
	for _, w := range line {
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
