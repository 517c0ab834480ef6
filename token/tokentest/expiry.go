package tokentest

import "time"

var expiryRules = []rule{
	{"an expired lease passes on", expiryPassesOn},
	{"Until counts the whole ttl on the monotonic clock", untilCountsTheTTL},
	{"nobody else is granted the resource before Until", untilOfGrant},
	{"nobody else is granted the resource before the Until of a renewal", untilOfRenewal},
}

func expiryPassesOn(p *probe) {
	p.granted("a", short)
	p.awaited("b", short)
	p.awaited("c", long)
	p.held("c")
}

func untilCountsTheTTL(p *probe) {
	sent := time.Now()
	grant := p.granted("a", long)
	p.within(sent, grant.Until, long)
	sent = time.Now()
	until := p.renewed(grant.Token, longer)
	p.within(sent, until, longer)
}

// within allows an issuer to take a margin off, but not most of the ttl.
func (p *probe) within(sent, until time.Time, ttl time.Duration) {
	switch {
	case p.err != nil:
	case monotonic(sent) && !monotonic(until):
		p.failf("Until has no monotonic reading: a step of the wall clock would move it")
	case time.Until(until) > ttl:
		p.failf("Until is %s away, later than the ttl %s", time.Until(until), ttl)
	case until.Before(sent.Add(ttl / 2)):
		p.failf("Until is %s after the request was sent, for a ttl of %s", until.Sub(sent), ttl)
	}
}

// monotonic reports whether t has a reading of the monotonic clock, which
// rounding takes off. Times inside of testing/synctest have none.
func monotonic(t time.Time) bool { return t != t.Round(0) }

func untilOfGrant(p *probe) {
	until := p.granted("a", short).Until
	p.awaited("b", long)
	p.notBefore(until)
}

func untilOfRenewal(p *probe) {
	ttl := p.renewedInTime(short)
	tok := p.granted("a", ttl).Token
	until := time.Now()
	if renewed, err := p.iss.Renew(p.ctx, tok, ttl); err == nil {
		until = renewed
	}
	p.awaited("b", long)
	p.notBefore(until)
}

// notBefore is called right after another holder was granted the resource: if
// the clock has not come to until by now, it had not then.
func (p *probe) notBefore(until time.Time) {
	if left := time.Until(until); p.err == nil && left > 0 {
		p.failf("another holder had it %s before Until", left)
	}
}
