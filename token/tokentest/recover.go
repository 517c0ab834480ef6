package tokentest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencepost/fencepost/token"
)

var recoverRules = []rule{
	{"a grant after a Recover has a greater number", recoverIsKept},
	{"a recovered number survives a release and an expiry", recoverSurvives},
	{"a Recover to a number that was granted already is ErrLost and lowers nothing", recoverOfTheKnown},
	{"a Recover to more than a day ahead of the clock is ErrTooFarAhead and raises nothing", recoverTooFarAhead},
	{"a Recover to half a day ahead of the clock is accepted", recoverBelowTheBound},
	{"a Recover leaves the lease as it is", recoverKeepsTheLease},
	{"a Recover under a cancelled context returns soon, and its error is not ErrLost", cancelledRecover},
}

var recoveredHandoff = rule{"a hand-off after a Recover has a greater number", settled(recoverBeforeHandoff)}

const minute = int64(time.Minute / (10 * time.Microsecond)) // in numbers

func (p *probe) recover(number int64) error {
	return p.iss.(token.Recoverer).Recover(p.ctx, p.resource, number)
}

// raised recovers to a minute above last, or more if that returns ErrLost: a Recover of
// another resource may have raised this one.
func (p *probe) raised(last int64) int64 {
	for ahead := minute; p.err == nil && ahead < token.MaxAhead/2; ahead *= 2 {
		err := p.recover(last + ahead)
		switch {
		case err == nil:
			return last + ahead
		case !errors.Is(err, token.ErrLost):
			p.failf("Recover: %w", err)
		}
	}
	p.failf("Recover far above the last number, %d, returns ErrLost", last)
	return last
}

// number acquires and releases, and returns the number of the grant.
func (p *probe) number(holder string) int64 {
	tok := p.granted(holder, long).Token
	p.released(tok)
	return tok.Number
}

func recoverIsKept(p *probe) {
	for _, at := range []*probe{p, p.at(p.resource + "/2")} {
		number := at.number("a")
		for round := range 3 {
			raised := at.raised(number)
			number = at.number(fmt.Sprintf("b-%d", round))
			at.above(raised, number)
		}
	}
}

func recoverSurvives(p *probe) {
	tok := p.granted("a", long).Token
	raised := p.raised(tok.Number)
	p.released(tok)
	second := p.granted("b", short).Token
	p.above(raised, second.Number)
	raised = p.raised(second.Number)
	p.outlast(short)
	p.above(raised, p.awaited("c", long).Token.Number)
}

func recoverOfTheKnown(p *probe) {
	last := p.raised(p.number("a"))
	last = max(last, p.number("b"))
	for _, known := range []int64{last, last - 1, 1} {
		if err := p.recover(known); p.err == nil && !errors.Is(err, token.ErrLost) {
			p.failf("Recover to %d, after %d was granted, returned %v, want ErrLost", known, last, err)
		}
	}
	p.above(last, p.number("c"))
}

func recoverKeepsTheLease(p *probe) {
	tok := p.granted("a", long).Token
	p.raised(tok.Number)
	p.held("a")
	p.renewed(tok, long)
	p.released(tok)
	p.raised(p.number("b"))
	p.free()
	p.notRenewed(tok)
}

func recoverBeforeHandoff(p *probe) {
	tok := p.granted("a", long).Token
	b := p.waits("b", long)
	raised := p.raised(tok.Number)
	p.released(tok)
	p.above(raised, p.handed(b).Token.Number)
}

func cancelledRecover(p *probe) {
	last := p.number("a")
	p.cancelled("Recover", func(ctx context.Context) error {
		return p.iss.(token.Recoverer).Recover(ctx, p.resource, last+minute)
	})
	p.above(last, p.number("b"))
}

var recoverRaceRules = []rule{
	{"of several Recovers at once the greatest number is kept", recoversAtOnce},
	{"numbers rise in the order of the grants, during Recovers too", recoversAmongGrants},
}

// A Recover that returns ErrLost has found a greater number.
func recoversAtOnce(p *probe) {
	for round := range 8 {
		at := p.at(fmt.Sprintf("%s/%d", p.resource, round))
		last := at.number("a")
		at.crowded(func(_ context.Context, worker int) error {
			number := last + int64(1+(worker*5)%crowd)*minute
			return unless(at.recover(number), token.ErrLost)
		})
		at.above(last+crowd*minute, at.number("b"))
	}
}

// Each Recover is to a number slightly above one that was just granted, so that it
// competes with grants of the same number. All numbers are far ahead of the clock, which
// would hide a number that falls.
func recoversAmongGrants(p *probe) {
	notes := &notes{numbers: []int64{p.raised(p.number("a"))}}
	p.crowded(func(ctx context.Context, worker int) error {
		for round := range 2 * rounds {
			err := p.recoverOrGrant(ctx, notes, worker, round)
			if err != nil {
				return err
			}
		}
		return nil
	})
	notes.rise(p)
}

func (p *probe) recoverOrGrant(ctx context.Context, notes *notes, worker, round int) error {
	if worker%2 == 0 {
		defer time.Sleep(pause)
		return unless(p.iss.(token.Recoverer).Recover(ctx, p.resource, notes.last()+2), token.ErrLost)
	}
	tok, err := p.insist(ctx, fmt.Sprintf("worker-%d:%d", worker, round))
	if err != nil {
		return err
	}
	notes.add(tok.Number)
	time.Sleep(rand.N(pause))
	return p.iss.Release(ctx, tok)
}

// The extra minute allows for an issuer's clock that is ahead of ours.
func recoverTooFarAhead(p *probe) {
	tooFar := time.Now().UnixMicro()/10 + token.MaxAhead + minute
	for _, number := range []int64{tooFar, token.MaxNumber} {
		if err := p.recover(number); !errors.Is(err, token.ErrTooFarAhead) {
			p.failf("Recover to %d returned %v, want ErrTooFarAhead", number, err)
		}
	}
	if number := p.number("a"); number >= tooFar {
		p.failf("number %d was granted after the Recover to %d was refused", number, tooFar)
	}
}

func recoverBelowTheBound(p *probe) {
	number := time.Now().UnixMicro()/10 + token.MaxAhead/2
	if err := p.recover(number); err != nil && !errors.Is(err, token.ErrLost) {
		p.failf("Recover to 12 h ahead: %w", err)
	}
	p.above(number, p.number("a"))
}
