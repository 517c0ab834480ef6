package tokentest

import (
	"context"
	"errors"
	"time"
)

const (
	leastSettle = 20 * time.Millisecond
	mostSettle  = 1280 * time.Millisecond // times four at each try
)

var errTryOver = errors.New("tokentest: the try is over")

// settled makes a check of one that needs somebody to stand in line first,
// which nothing tells from outside. It gives them time to get there. What goes
// wrong then may be the machine's fault, where check says so (see suspectf):
// it is tried again, elsewhere and with more time, and counts where no time is
// enough.
func settled(check func(p *probe)) func(p *probe) {
	return func(p *probe) {
		for settle := leastSettle; p.err == nil; settle *= 4 {
			try := p.try(settle)
			check(try)
			try.end()
			if !try.suspect || settle >= mostSettle {
				p.err = try.err
				return
			}
		}
	}
}

func (p *probe) try(settle time.Duration) *probe {
	try := newProbe(p.ctx, p.iss)
	try.settle = settle
	try.ctx, try.over = context.WithCancelCause(p.ctx)
	return try
}

// end sends home whoever stands in line still.
func (p *probe) end() {
	p.over(errTryOver)
	home := make(chan struct{})
	go func() {
		p.line.Wait()
		close(home)
	}()
	select {
	case <-home:
	case <-time.After(patience):
		p.suspect = false
		p.failf("a Wait has not returned %s after its context ended", patience)
	}
}

// soon is a ttl that is meant to pass, when two have come into line.
func (p *probe) soon() time.Duration { return 2*short + 2*p.settle }

// suspectf is failf for what an honest issuer shows too, where the machine was
// slow.
func (p *probe) suspectf(format string, args ...any) {
	if p.err == nil {
		p.suspect = true
	}
	p.failf(format, args...)
}
