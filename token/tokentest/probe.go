package tokentest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencepost/fencepost/token"
)

const (
	short    = 150 * time.Millisecond // a ttl that is meant to pass
	long     = time.Minute            // a ttl that is not
	longer   = time.Hour
	slack    = 50 * time.Millisecond // the coarsest clock that an issuer may have
	patience = 30 * time.Second      // for what must happen at some time
	pause    = 2 * time.Millisecond  // between two tries

	places   = 64         // in a line, at most
	onlooker = "onlooker" // a holder that no check uses otherwise
)

// probe drives an issuer through one check, on a resource of its own. Once
// something is wrong its methods do nothing, so that a check can be read, and
// written, as a straight line.
type probe struct {
	*outcome
	ctx      context.Context
	iss      token.Issuer
	resource string
	served   chan *waiting // who stood in line and has an answer, in this order
	asked    *[]*waiting   // who went to stand in line, in this order
	settle   time.Duration // what it takes to get there
}

// outcome is what the probes of one try have in common.
type outcome struct {
	err     error
	suspect bool // err may be the machine's fault
	line    sync.WaitGroup
	over    context.CancelCauseFunc
}

func newProbe(ctx context.Context, iss token.Issuer) *probe {
	p := &probe{outcome: new(outcome), ctx: ctx, iss: iss}
	return p.at("tokentest/" + rand.Text())
}

// at is the same probe on another resource.
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

// granted acquires, which must succeed.
func (p *probe) granted(holder string, ttl time.Duration) token.Grant {
	if p.err != nil {
		return token.Grant{}
	}
	grant, err := p.iss.Acquire(p.ctx, p.resource, holder, ttl)
	if err != nil {
		p.failf("Acquire of %q by %q: %w", p.resource, holder, err)
	}
	return grant
}

// awaited acquires as soon as the issuer lets it.
func (p *probe) awaited(holder string, ttl time.Duration) token.Grant {
	for start := time.Now(); p.err == nil; time.Sleep(pause) {
		grant, err := p.iss.Acquire(p.ctx, p.resource, holder, ttl)
		switch {
		case err == nil:
			return grant
		case !errors.Is(err, token.ErrHeld):
			p.failf("Acquire of %q by %q: %w", p.resource, holder, err)
		case time.Since(start) > patience:
			p.failf("Acquire by %q is still refused after %s: %w", holder, patience, err)
		}
	}
	return token.Grant{}
}

// refused tries to acquire, which must be refused.
func (p *probe) refused(holder string, ttl time.Duration) token.HeldError {
	if p.err != nil {
		return token.HeldError{}
	}
	grant, err := p.iss.Acquire(p.ctx, p.resource, holder, ttl)
	var held *token.HeldError
	switch {
	case err == nil:
		p.failf("Acquire by %q was granted %s although another holds it", holder, grant.Token)
	case !errors.As(err, &held):
		p.failf("Acquire by %q returned %v, want a *HeldError", holder, err)
	default:
		return *held
	}
	return token.HeldError{}
}
