package tokentest

import (
	"errors"
	"fmt"

	"github.com/fencepost/fencepost/token"
)

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

// The first ttl is one that is long enough for this machine today.
func renewedIsKept(p *probe) {
	for ttl := 2 * short; p.err == nil && ttl < patience; ttl *= 3 {
		at := p.at(fmt.Sprintf("%s/%s", p.resource, ttl))
		tok := at.granted("a", ttl).Token
		w := at.waits("b", long)
		until, err := at.iss.Renew(at.ctx, tok, ttl)
		if err == nil {
			at.handed(w)
			at.notBefore(until)
			return
		}
		if !errors.Is(err, token.ErrLost) {
			p.failf("Renew: %w", err)
		}
	}
	p.failf("a lease that somebody waits for cannot be renewed")
}
