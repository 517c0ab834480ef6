package tokentest

import (
	"errors"
	"fmt"

	"github.com/fencepost/fencepost/token"
)

var bargeRules = []rule{
	{"who asks by Acquire does not pass the line, were it the last holder", settled(acquireBehindTheLine)},
	{"nobody passes the line in the moment of a release", settled(bargeAtRelease)},
	{"nobody passes the line in the moment of an expiry", settled(bargeAtExpiry)},
}

// hazard L7
func acquireBehindTheLine(p *probe) {
	tok := p.granted("a", long).Token
	line := []*waiting{p.waits("b", long), p.waits("c", long)}
	for _, w := range line {
		p.released(tok)
		p.outside(tok.Holder)
		p.outside("newcomer")
		tok = p.handed(w).Token
	}
}

// outside tries to acquire past the line.
func (p *probe) outside(holder string) {
	if p.err != nil {
		return
	}
	grant, err := p.iss.Acquire(p.ctx, p.resource, holder, long)
	switch {
	case err == nil:
		p.suspectf("Acquire by %q was granted number %d although others wait", holder, grant.Token.Number)
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
