package tokentest

import (
	"context"
	"errors"
	"fmt"
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
	p.inTime(func(at *probe, ttl time.Duration) error {
		_, err := at.iss.Renew(at.ctx, at.granted("a", ttl).Token, long)
		if err == nil {
			at.outlast(ttl)
			at.held("a")
		}
		return err
	})
}

// inTime calls try until the renewal in it, whose error it returns, is in time on this
// machine. Each try has a longer ttl than the one before, and a resource of its own.
func (p *probe) inTime(try func(at *probe, ttl time.Duration) error) {
	for ttl := 2 * short; ttl < timeout; ttl *= 3 {
		err := try(p.at(fmt.Sprintf("%s/%s", p.resource, ttl)), ttl)
		if p.err != nil || err == nil {
			return
		}
		if !errors.Is(err, token.ErrLost) && !errors.Is(err, token.ErrUnreachable) {
			p.failf("Renew: %w", err)
		}
	}
	p.failf("a renewal right after the grant returns ErrLost or ErrUnreachable")
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
	p.freed()
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

var releaseRules = []rule{
	{"a release frees the resource at once", releaseFrees},
	{"only the holder releases", onlyTheHolderReleases},
	{"a release does not compare the number", releaseWithoutNumber},
	{"what is no longer held cannot be released", releaseOfNothing},
}

func releaseFrees(p *probe) {
	p.released(p.granted("a", long).Token)
	p.free()
}

func onlyTheHolderReleases(p *probe) {
	tok := p.granted("a", long).Token
	p.notReleased(token.Token{Resource: p.resource, Number: tok.Number, Holder: "b"})
	p.held("a")
	p.renewed(tok, long)
}

// If the reply with the grant was lost, the holder has no number.
func releaseWithoutNumber(p *probe) {
	p.granted("a", long)
	p.released(token.Token{Resource: p.resource, Number: 1, Holder: "a"})
	p.free()
}

func releaseOfNothing(p *probe) {
	p.notReleased(token.Token{Resource: p.resource, Number: 1, Holder: "a"})
	tok := p.granted("a", long).Token
	p.released(tok)
	p.notReleased(tok)

	expired := p.granted("b", short).Token
	p.outlast(short)
	p.notReleased(expired)

	next := p.awaited("c", long).Token
	p.notReleased(tok)
	p.notReleased(expired)
	p.held("c")
	p.renewed(next, long)
}

var expiryRules = []rule{
	{"an expired lease can be acquired", expiryPassesOn},
	{"Until counts the whole ttl on the monotonic clock", untilCountsTheTTL},
	{"no other holder is granted the resource before Until", untilOfGrant},
	{"no other holder is granted the resource before the Until of a renewal", untilOfRenewal},
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

// within accepts an Until with a safety margin, if most of the ttl is left.
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

// monotonic reports whether t has a reading of the monotonic clock, which Round removes.
// Times inside a testing/synctest bubble have none.
func monotonic(t time.Time) bool { return t != t.Round(0) }

func untilOfGrant(p *probe) {
	until := p.granted("a", short).Until
	p.awaited("b", long)
	p.notBefore(until)
}

func untilOfRenewal(p *probe) {
	p.inTime(func(at *probe, ttl time.Duration) error {
		until, err := at.iss.Renew(at.ctx, at.granted("a", ttl).Token, ttl)
		if err == nil {
			at.awaited("b", long)
			at.notBefore(until)
		}
		return err
	})
}

// notBefore is called right after another holder was granted the resource: if until is
// still in the future, the grant was made before it.
func (p *probe) notBefore(until time.Time) {
	if left := time.Until(until); p.err == nil && left > 0 {
		p.failf("another holder was granted the resource %s before Until", left)
	}
}

var cancelRules = []rule{
	{"an Acquire under a cancelled context returns soon and grants nothing that lasts", cancelledAcquire},
	{"a Renew under a cancelled context returns soon, and its error is not ErrLost", cancelledRenew},
	{"a Release under a cancelled context returns soon, and its error is not ErrLost", cancelledRelease},
}

func cancelledAcquire(p *probe) {
	p.cancelled("Acquire", func(ctx context.Context) error {
		_, err := p.iss.Acquire(ctx, p.resource, "a", longer)
		return err
	})
	p.awaited("b", long)
}

func cancelledRenew(p *probe) {
	tok := p.granted("a", long).Token
	p.cancelled("Renew", func(ctx context.Context) error {
		_, err := p.iss.Renew(ctx, tok, long)
		return err
	})
	p.held("a")
	p.renewed(tok, long)
}

// The release may or may not have taken effect.
func cancelledRelease(p *probe) {
	tok := p.granted("a", long).Token
	p.cancelled("Release", func(ctx context.Context) error { return p.iss.Release(ctx, tok) })
}

func (p *probe) cancelled(what string, call func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(p.ctx)
	cancel()
	err := p.returns(what, func() error { return call(ctx) })
	if p.err == nil && (err == nil || errors.Is(err, token.ErrLost) || errors.Is(err, token.ErrHeld)) {
		p.failf("%s returned %v, want an error that is neither ErrLost nor ErrHeld", what, err)
	}
}

// returns calls call, which must return, and returns its error.
func (p *probe) returns(what string, call func() error) error {
	if p.err != nil {
		return nil
	}
	answer := make(chan error, 1)
	go func() { answer <- call() }()
	select {
	case err := <-answer:
		return err
	case <-time.After(timeout):
		p.failf("%s has not returned after %s", what, timeout)
		return nil
	}
}
