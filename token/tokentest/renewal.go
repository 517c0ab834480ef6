package tokentest

import (
	"errors"
	"time"

	"github.com/fencepost/fencepost/token"
)

var renewalRules = []rule{
	{"a renewed lease outlasts its first ttl", renewingProlongs},
	{"only the holder renews", onlyTheHolderRenews},
	{"a renewal never acquires what has expired", renewalAfterExpiry},
	{"a renewal never acquires what was released", renewalAfterRelease},
	{"a renewal never acquires what was never held", renewalOfNothing},
	{"a renewal never takes from a successor", renewalAfterSuccessor},
}

func renewingProlongs(p *probe) {
	ttl := p.renewedInTime(long)
	p.outlast(ttl)
	p.held("a")
}

// renewedInTime acquires as "a" and renews for next, with a first ttl that is
// long enough for this machine today, which it returns.
func (p *probe) renewedInTime(next time.Duration) time.Duration {
	ttl := short
	for ; ttl < patience; ttl *= 3 {
		tok := p.granted("a", ttl).Token
		if p.err != nil {
			break
		}
		_, err := p.iss.Renew(p.ctx, tok, next)
		if err == nil {
			return ttl
		}
		if !errors.Is(err, token.ErrLost) {
			p.failf("Renew: %w", err)
		}
	}
	p.failf("Renew right after Acquire returns ErrLost")
	return ttl
}

func onlyTheHolderRenews(p *probe) {
	tok := p.granted("a", long).Token
	p.notRenewed(token.Token{Resource: p.resource, Number: tok.Number, Holder: "b"})
	p.notRenewed(token.Token{Resource: p.resource, Number: tok.Number + 1, Holder: "b"})
	p.held("a")
	p.renewed(tok, long)
}

// hazard L4
func renewalAfterExpiry(p *probe) {
	tok := p.granted("a", short).Token
	p.outlast(short)
	p.notRenewed(tok)
	p.free()
}

// hazard L4
func renewalAfterRelease(p *probe) {
	tok := p.granted("a", long).Token
	p.released(tok)
	p.notRenewed(tok)
	p.free()
}

// hazard L4
func renewalOfNothing(p *probe) {
	p.notRenewed(token.Token{Resource: p.resource, Number: 1, Holder: "a"})
	p.free()
}

// hazard L4
func renewalAfterSuccessor(p *probe) {
	tok := p.granted("a", short).Token
	next := p.awaited("b", long).Token
	p.notRenewed(tok)
	p.held("b")
	p.released(next)
	p.notRenewed(tok)
	p.free()
}
