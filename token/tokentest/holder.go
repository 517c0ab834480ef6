package tokentest

import "github.com/fencepost/fencepost/token"

var holderRules = []rule{
	{"a resource that is held is refused, with its holder and the rest of its ttl", heldIsRefused},
	{"a refused try changes nothing", refusalsChangeNothing},
	{"the holder is granted its resource again, for the whole ttl", holderIsGrantedAgain},
	{"holders are compared whole by Acquire", acquireComparesWhole},
	{"holders are compared whole by Renew", renewComparesWhole},
	{"holders are compared whole by Release", releaseComparesWhole},
}

func heldIsRefused(p *probe) {
	p.granted("a", long)
	p.held("a")
}

func refusalsChangeNothing(p *probe) {
	tok := p.granted("a", long).Token
	for range 3 {
		p.refused("b", longer)
	}
	p.held("a")
	p.renewed(tok, long)
	p.notReleased(token.Token{Resource: p.resource, Number: tok.Number, Holder: "b"})
	p.released(tok)
	p.granted("c", long)
}

// hazard R6
func holderIsGrantedAgain(p *probe) {
	first := p.granted("a", long).Token
	again := p.granted("a", longer).Token
	if p.err == nil && again.Number < first.Number {
		p.failf("asked again by its holder it granted %d after %d", again.Number, first.Number)
	}
	if held := p.refused("b", long); p.err == nil && held.Remaining <= long {
		p.failf("granted again for %s, it has %s left", longer, held.Remaining)
	}
	p.released(again)
	p.above(again.Number, p.granted("b", long).Token.Number)
}

// alike are holders that are not the same.
var alike = [][2]string{
	{"worker-1", "worker-10"}, {"worker-10", "worker-1"},
	{"worker-1", "Worker-1"}, {"worker-1", "worker-1 "}, {"worker 1", "worker%201"},
	{"gr\u00f6\u00dfe", "gro\u0308\u00dfe"}, {"worker", "*"}, {"worker_1", "worker-1"},
}

// hazard R7
func acquireComparesWhole(p *probe) {
	for _, pair := range alike {
		tok := p.granted(pair[0], long).Token
		p.refused(pair[1], long)
		p.released(tok)
	}
}

// hazard R7
func renewComparesWhole(p *probe) {
	for _, pair := range alike {
		tok := p.granted(pair[0], long).Token
		p.notRenewed(token.Token{Resource: p.resource, Number: tok.Number, Holder: pair[1]})
		p.held(pair[0])
		p.released(tok)
	}
}

// hazard R7
func releaseComparesWhole(p *probe) {
	for _, pair := range alike {
		tok := p.granted(pair[0], long).Token
		p.notReleased(token.Token{Resource: p.resource, Number: tok.Number, Holder: pair[1]})
		p.held(pair[0])
		p.released(tok)
	}
}
