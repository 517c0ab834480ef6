package tokentest

import (
	"fmt"
	"time"
)

var numberRules = []rule{
	{"a grant names what was asked for, under a number of at most fifteen digits", grantsNameWhatWasAsked},
	{"numbers rise over a release", numbersRiseOverRelease},
	{"numbers rise over a release to the same holder", numbersRiseForOneHolder},
	{"numbers rise over an expiry", numbersRiseOverExpiry},
	{"a number is at least the clock in units of 10 µs", numbersAreClocks},
}

func grantsNameWhatWasAsked(p *probe) {
	tok := p.granted("a", long).Token
	if p.err != nil {
		return
	}
	if tok.Resource != p.resource || tok.Holder != "a" {
		p.failf("Acquire of %q by %q granted %q to %q", p.resource, "a", tok.Resource, tok.Holder)
	}
	if err := tok.Check(); err != nil {
		p.failf("the token is incomplete: %w", err)
	}
}

func numbersRiseOverRelease(p *probe) {
	p.rise(func(i int) string { return fmt.Sprintf("holder-%d", i) })
}

func numbersRiseForOneHolder(p *probe) {
	p.rise(func(int) string { return "a" })
}

// rise makes the rounds follow each other closely: an issuer that has nothing
// but a clock repeats itself within a tick.
func (p *probe) rise(holder func(int) string) {
	var last int64
	for i := range 64 {
		tok := p.granted(holder(i), long).Token
		p.above(last, tok.Number)
		p.released(tok)
		last = tok.Number
	}
}

func (p *probe) above(last, number int64) {
	if p.err == nil && number <= last {
		p.failf("number %d was granted after %d", number, last)
	}
}

func numbersRiseOverExpiry(p *probe) {
	first := p.granted("a", short).Token
	second := p.awaited("b", short).Token
	p.above(first.Number, second.Number)
	third := p.awaited("a", long).Token
	p.above(second.Number, third.Number)
}

// hazard R12
func numbersAreClocks(p *probe) {
	floor := time.Now().Add(-time.Minute).UnixMicro() / 10 // a minute for the server's clock to be behind ours
	if number := p.granted("a", long).Token.Number; p.err == nil && number < floor {
		p.failf("number %d is below the clock, %d: numbers of two issuers do not compare", number, floor)
	}
}
