package tokentest

import (
	"context"
	"errors"
	"time"

	"github.com/fencepost/fencepost/token"
)

var cancelRules = []rule{
	{"an Acquire under a cancelled context returns soon and grants nothing that lasts", cancelledAcquire},
	{"a Renew under a cancelled context returns soon and does not say that the lease is lost", cancelledRenew},
	{"a Release under a cancelled context returns soon and does not say that the lease is lost", cancelledRelease},
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

// The release itself may have happened or not.
func cancelledRelease(p *probe) {
	tok := p.granted("a", long).Token
	p.cancelled("Release", func(ctx context.Context) error { return p.iss.Release(ctx, tok) })
}

func (p *probe) cancelled(what string, call func(ctx context.Context) error) {
	if p.err != nil {
		return
	}
	ctx, cancel := context.WithCancel(p.ctx)
	cancel()
	answer := make(chan error, 1)
	go func() { answer <- call(ctx) }()
	select {
	case err := <-answer:
		if err == nil || errors.Is(err, token.ErrLost) || errors.Is(err, token.ErrHeld) {
			p.failf("%s returned %v, want an error that says no more than that it gave up", what, err)
		}
	case <-time.After(patience):
		p.failf("%s has not returned after %s", what, patience)
	}
}
