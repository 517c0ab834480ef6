package tokentest

import (
	"errors"
	"time"

	"github.com/fencepost/fencepost/token"
)

// held looks on: holder must have the resource, for at most a long ttl.
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

// free looks on: nobody may have the resource.
func (p *probe) free() { p.released(p.granted(onlooker, long).Token) }

// renewed renews, which must succeed.
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

// released releases, which must succeed.
func (p *probe) released(tok token.Token) {
	if p.err != nil {
		return
	}
	if err := p.iss.Release(p.ctx, tok); err != nil {
		p.failf("Release by %q: %w", tok.Holder, err)
	}
}

// notRenewed renews, which must be ErrLost.
func (p *probe) notRenewed(tok token.Token) {
	if p.err != nil {
		return
	}
	if _, err := p.iss.Renew(p.ctx, tok, longer); !errors.Is(err, token.ErrLost) {
		p.failf("Renew by %q returned %v, want ErrLost", tok.Holder, err)
	}
}

// notReleased releases, which must be ErrLost.
func (p *probe) notReleased(tok token.Token) {
	if p.err != nil {
		return
	}
	if err := p.iss.Release(p.ctx, tok); !errors.Is(err, token.ErrLost) {
		p.failf("Release by %q returned %v, want ErrLost", tok.Holder, err)
	}
}

// outlast sleeps until a lease of ttl that was granted before now has expired
// by any clock.
func (p *probe) outlast(ttl time.Duration) {
	if p.err == nil {
		time.Sleep(ttl + slack)
	}
}
