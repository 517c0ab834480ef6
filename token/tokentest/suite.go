package tokentest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost/token"
)

// TestIssuer runs one subtest for each rule of [token.Issuer]. If the issuer is a
// [token.QueueIssuer], a [token.BatchRenewer], a [token.Recoverer] or a
// [token.Inspector], it also runs one for each rule of that interface. Sixteen subtests run at once, whatever -parallel is,
// since most of them wait for a lease to expire.
//
// newIssuer is called once for each rule, and once to find out which interfaces the
// issuer has. Each call returns an Issuer to test; these Issuers may share a server.
// newIssuer may use t to clean up.
func TestIssuer(t *testing.T, newIssuer func(t *testing.T) token.Issuer) {
	t.Helper()
	var group sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, r := range rules(newIssuer(t)) {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			t.Run(r.name, func(t *testing.T) {
				if err := r.broken(t.Context(), newIssuer(t)); err != nil {
					t.Error(err)
				}
			})
		})
	}
	group.Wait()
}

// Forgetter is an optional interface of an issuer under test. If the issuer has it, its
// numbers must also rise over a loss of the server's data.
type Forgetter interface {
	// Forget makes the server lose what it has stored of resource, as a restart without its
	// data does. It may lose the data of other resources too, if those of other issuers under
	// test are not among them.
	Forget(ctx context.Context, resource string) error
}

// rule is a sentence of the contract, and the check that can find it broken.
type rule struct {
	name  string
	check func(p *probe)
}

// rules returns the rules of the interfaces that iss implements.
func rules(iss token.Issuer) []rule {
	all := slices.Concat(numberRules, holderRules, renewalRules, releaseRules,
		expiryRules, resourceRules, cancelRules, crowdRules)
	_, waits := iss.(token.QueueIssuer)
	if waits {
		all = slices.Concat(all, queueRules, overtakingRules, leaveRules, handoffRules, fairnessRules)
	}
	if _, batches := iss.(token.BatchRenewer); batches {
		all = slices.Concat(all, batchRules, batchLostRules)
	}
	_, raises := iss.(token.Recoverer)
	if raises {
		all = slices.Concat(all, recoverRules, recoverRaceRules)
	}
	if raises && waits {
		all = append(all, recoveredHandoff)
	}
	_, inspects := iss.(token.Inspector)
	if inspects {
		all = slices.Concat(all, inspectRules)
	}
	if inspects && waits {
		all = append(all, inspectedQueue)
	}
	if _, forgets := iss.(Forgetter); forgets {
		all = append(all, numbersAfterLoss)
	}
	return all
}

// broken runs the check. It returns nil, or an error with the rule and what was seen.
func (r rule) broken(ctx context.Context, iss token.Issuer) error {
	p := newProbe(ctx, iss)
	r.check(p)
	if p.err != nil {
		return fmt.Errorf("rule: %s: %w", r.name, p.err)
	}
	return nil
}

const (
	atOnce = 16 // checks that run at once

	short   = 150 * time.Millisecond // a ttl that is meant to end during the check
	long    = 10 * time.Minute       // a ttl that is not
	longer  = 2 * time.Hour
	slack   = 50 * time.Millisecond // the coarsest clock that an issuer may have
	timeout = time.Minute           // for events that must happen eventually: only a call that hangs takes longer
	pause   = 2 * time.Millisecond  // between two tries

	places   = 64         // in a queue, at most
	onlooker = "onlooker" // a holder that no check uses for another purpose
)

var errTimeout = fmt.Errorf("no result after %s", timeout)

// probe drives an issuer through one check, on a resource of its own. After the first
// failure its methods do nothing, so that a check is a straight sequence of calls.
type probe struct {
	*outcome
	ctx      context.Context
	iss      token.Issuer
	resource string
	served   chan *waiting // the waiters that have a result, in the order of the results
	asked    *[]*waiting   // the waiters that called Wait, in the order of the calls
	settle   time.Duration // how long a waiter may need to join the queue
}

// outcome is the state that the probes of one try share.
type outcome struct {
	err     error
	suspect bool // err may be the machine's fault
	waiters sync.WaitGroup
	over    context.CancelCauseFunc
}

func newProbe(ctx context.Context, iss token.Issuer) *probe {
	p := &probe{outcome: new(outcome), ctx: ctx, iss: iss}
	return p.at("tokentest/" + rand.Text())
}

// at returns the same probe for another resource.
func (p *probe) at(resource string) *probe {
	at := *p
	at.resource, at.served, at.asked = resource, make(chan *waiting, places), new([]*waiting)
	return &at
}

func (p *probe) failf(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

// granted calls Acquire, which must succeed.
func (p *probe) granted(holder string, ttl time.Duration) token.Grant {
	return p.acquired(holder, ttl, token.ErrUnreachable)
}

// awaited repeats Acquire until the issuer grants the resource.
func (p *probe) awaited(holder string, ttl time.Duration) token.Grant {
	return p.acquired(holder, ttl, token.ErrUnreachable, token.ErrHeld)
}

// acquired repeats Acquire while its error is one of again. An issuer that was too slow
// for a short ttl returns ErrUnreachable, after which a Locker repeats the call too.
func (p *probe) acquired(holder string, ttl time.Duration, again ...error) token.Grant {
	for start := time.Now(); p.err == nil; time.Sleep(pause) {
		grant, err := p.iss.Acquire(p.ctx, p.resource, holder, ttl)
		switch {
		case err == nil:
			return grant
		case !slices.ContainsFunc(again, func(one error) bool { return errors.Is(err, one) }):
			p.failf("Acquire of %q by %q: %w", p.resource, holder, err)
		case time.Since(start) > timeout:
			p.failf("Acquire by %q: %w: %w", holder, errTimeout, err)
		}
	}
	return token.Grant{}
}

// refused calls Acquire, which must return a HeldError.
func (p *probe) refused(holder string, ttl time.Duration) token.HeldError {
	if p.err != nil {
		return token.HeldError{}
	}
	grant, err := p.iss.Acquire(p.ctx, p.resource, holder, ttl)
	var held *token.HeldError
	switch {
	case err == nil:
		p.failf("Acquire by %q was granted %s although another holder has the resource", holder, grant.Token)
	case !errors.As(err, &held):
		p.failf("Acquire by %q returned %v, want a *HeldError", holder, err)
	default:
		return *held
	}
	return token.HeldError{}
}

// held checks that holder has the resource, for at most a long ttl.
func (p *probe) held(holder string) {
	held := p.refused(onlooker, long)
	switch {
	case p.err != nil:
	case held.Resource != p.resource:
		p.failf("HeldError.Resource is %q, want %q", held.Resource, p.resource)
	case held.Holder != "" && held.Holder != holder:
		p.failf("HeldError.Holder is %q, want %q", held.Holder, holder)
	case held.Remaining <= 0 || held.Remaining > long:
		p.failf("HeldError.Remaining is %s, want more than 0 and at most %s", held.Remaining, long)
	}
}

// free checks that the resource has no holder.
func (p *probe) free() { p.released(p.granted(onlooker, long).Token) }

// freed is free after an expiry, which the issuer may detect late.
func (p *probe) freed() { p.released(p.awaited(onlooker, long).Token) }

// renewed calls Renew, which must succeed.
func (p *probe) renewed(tok token.Token, ttl time.Duration) time.Time {
	if p.err != nil {
		return time.Time{}
	}
	until, err := p.iss.Renew(p.ctx, tok, ttl)
	if err != nil {
		p.failf("Renew by %q: %w", tok.Holder, err)
	}
	return until
}

// released calls Release, which must succeed.
func (p *probe) released(tok token.Token) {
	if p.err != nil {
		return
	}
	if err := p.iss.Release(p.ctx, tok); err != nil {
		p.failf("Release by %q: %w", tok.Holder, err)
	}
}

// notRenewed calls Renew, which must return ErrLost.
func (p *probe) notRenewed(tok token.Token) {
	if p.err != nil {
		return
	}
	if _, err := p.iss.Renew(p.ctx, tok, longer); !errors.Is(err, token.ErrLost) {
		p.failf("Renew by %q returned %v, want ErrLost", tok.Holder, err)
	}
}

// notReleased calls Release, which must return ErrLost.
func (p *probe) notReleased(tok token.Token) {
	if p.err != nil {
		return
	}
	if err := p.iss.Release(p.ctx, tok); !errors.Is(err, token.ErrLost) {
		p.failf("Release by %q returned %v, want ErrLost", tok.Holder, err)
	}
}

// outlast sleeps until a lease of ttl that was granted before now has expired by any
// clock.
func (p *probe) outlast(ttl time.Duration) {
	if p.err == nil {
		time.Sleep(ttl + slack)
	}
}
