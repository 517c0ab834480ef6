package tokentest

import (
	"context"
	"errors"
	"time"

	"github.com/fencepost/fencepost/token"
)

var raiseRules = []rule{
	{"what is granted after a Raise has a greater number", raiseIsKept},
	{"a raised number survives a release and an expiry", raiseSurvives},
	{"a Raise to what was granted already is ErrLost and lowers nothing", raiseOfTheKnown},
	{"a Raise to more than a day ahead of the clock is ErrPoisoned and raises nothing", raiseOfPoison},
	{"a Raise to half a day ahead of the clock is no poison", raiseBelowPoison},
	{"a Raise does not touch who holds", raiseTouchesNobody},
	{"a Raise under a cancelled context returns soon and does not say that the lease was lost", cancelledRaise},
}

var raisedHandOver = rule{"a hand-over after a Raise has a greater number", settled(raiseBeforeHandOver)}

const minute = int64(time.Minute / (10 * time.Microsecond)) // in numbers

func (p *probe) raise(number int64) error {
	return p.iss.(token.Raiser).Raise(p.ctx, p.resource, number)
}

// raised raises to a minute above last, or more: what other resources were
// raised to may have raised this one.
func (p *probe) raised(last int64) int64 {
	for ahead := minute; p.err == nil && ahead < token.Poisoned/2; ahead *= 2 {
		err := p.raise(last + ahead)
		switch {
		case err == nil:
			return last + ahead
		case !errors.Is(err, token.ErrLost):
			p.failf("Raise: %w", err)
		}
	}
	p.failf("Raise far above the last number, %d, returns ErrLost", last)
	return last
}

// number is that of a grant that is over.
func (p *probe) number(holder string) int64 {
	tok := p.granted(holder, long).Token
	p.released(tok)
	return tok.Number
}

func raiseIsKept(p *probe) {
	for _, at := range []*probe{p, p.at(p.resource + "/2")} {
		number := at.number("a")
		for range 3 {
			raised := at.raised(number)
			number = at.number("b")
			at.above(raised, number)
		}
	}
}

func raiseSurvives(p *probe) {
	tok := p.granted("a", long).Token
	raised := p.raised(tok.Number)
	p.released(tok)
	second := p.granted("b", short).Token
	p.above(raised, second.Number)
	raised = p.raised(second.Number)
	p.outlast(short)
	p.above(raised, p.awaited("c", long).Token.Number)
}

func raiseOfTheKnown(p *probe) {
	last := p.raised(p.number("a"))
	last = max(last, p.number("b"))
	for _, known := range []int64{last, last - 1, 1} {
		if err := p.raise(known); p.err == nil && !errors.Is(err, token.ErrLost) {
			p.failf("Raise to %d, where %d was granted, returned %v, want ErrLost", known, last, err)
		}
	}
	p.above(last, p.number("c"))
}

func raiseTouchesNobody(p *probe) {
	tok := p.granted("a", long).Token
	p.raised(tok.Number)
	p.held("a")
	p.renewed(tok, long)
	p.released(tok)
	p.raised(p.number("b"))
	p.free()
	p.notRenewed(tok)
}

func raiseBeforeHandOver(p *probe) {
	tok := p.granted("a", long).Token
	b := p.waits("b", long)
	raised := p.raised(tok.Number)
	p.released(tok)
	p.above(raised, p.handed(b).Token.Number)
}

func cancelledRaise(p *probe) {
	last := p.number("a")
	p.cancelled("Raise", func(ctx context.Context) error {
		return p.iss.(token.Raiser).Raise(ctx, p.resource, last+minute)
	})
	p.above(last, p.number("b"))
}
