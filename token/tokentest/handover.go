package tokentest

import (
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/token"
)

var handOverRules = []rule{
	{"nobody else is granted the resource before the Until of a hand-over", settled(untilOfHandOver)},
	{"what was handed over can be renewed for the whole ttl", settled(handOverIsRenewed)},
	{"what was handed over is its holder's, asked again", settled(handOverIsGrantedAgain)},
	{"the holder need not stand in line for its own resource", settled(holderWaits)},
}

// hazard R13
func untilOfHandOver(p *probe) {
	for i, next := range []func(at *probe, c *waiting){
		func(at *probe, c *waiting) { at.handed(c) },
		func(at *probe, c *waiting) { at.left(c); at.awaited("d", long) },
	} {
		at := p.at(fmt.Sprintf("%s/%d", p.resource, i))
		tok := at.granted("a", long).Token
		b, c := at.waits("b", 2*short), at.waits("c", long)
		at.released(tok)
		until := at.handed(b).Until
		if p.err == nil && monotonic(time.Now()) && !monotonic(until) {
			p.failf("Until has no monotonic reading: a step of the wall clock would move it")
		}
		next(at, c)
		at.notBefore(until)
	}
}

// The first ttl is one that is long enough for this machine today.
func handOverIsRenewed(p *probe) {
	for ttl := 2 * short; p.err == nil && ttl < patience; ttl *= 3 {
		at := p.at(fmt.Sprintf("%s/%s", p.resource, ttl))
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
			return
		}
		if !errors.Is(err, token.ErrLost) {
			p.failf("Renew: %w", err)
		}
	}
	p.failf("Renew right after a hand-over returns ErrLost")
}

// hazard R6
func handOverIsGrantedAgain(p *probe) {
	tok := p.granted("a", long).Token
	b, c := p.waits("b", long), p.waits("c", long)
	p.released(tok)
	tok = p.handed(b).Token
	again := p.granted("b", long).Token
	if p.err == nil && again.Number < tok.Number {
		p.failf("asked again by its holder it granted %d after %d", again.Number, tok.Number)
	}
	p.held("b")
	p.released(again)
	p.above(again.Number, p.handed(c).Token.Number)
}

// hazard R6
func holderWaits(p *probe) {
	tok := p.granted("a", long).Token
	b := p.waits("b", long)
	again := p.handed(p.waits("a", long)).Token
	if p.err == nil && again.Number < tok.Number {
		p.failf("asked again by its holder it granted %d after %d", again.Number, tok.Number)
	}
	p.held("a")
	p.released(again)
	p.above(again.Number, p.handed(b).Token.Number)
	p.held("b")
}
