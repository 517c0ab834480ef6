package tokentest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fencepost/fencepost/token"
)

// waiting is somebody who stands in line, or stood.
type waiting struct {
	holder string
	ctx    context.Context // over once w leaves
	leave  context.CancelCauseFunc
	done   chan struct{}
	grant  token.Grant // once done
	err    error       // once done
}

// waits sends holder to stand in line, and gives it the time to get there.
func (p *probe) waits(holder string, ttl time.Duration) *waiting {
	w := &waiting{holder: holder, leave: func(error) {}, done: make(chan struct{})}
	if p.err != nil {
		close(w.done)
		return w
	}
	ctx, cancel := context.WithCancelCause(p.ctx)
	w.ctx, w.leave = ctx, cancel
	*p.asked = append(*p.asked, w)
	p.line.Go(func() {
		w.grant, w.err = p.wait(ctx, holder, ttl)
		p.served <- w
		close(w.done)
	})
	time.Sleep(p.settle)
	return w
}

func (p *probe) wait(ctx context.Context, holder string, ttl time.Duration) (token.Grant, error) {
	return p.iss.(token.Waiter).Wait(ctx, p.resource, holder, ttl)
}

// handed waits until w is granted the resource.
func (p *probe) handed(w *waiting) token.Grant {
	p.returned(w)
	if p.err == nil && w.err != nil {
		p.failf("Wait by %q: %w", w.holder, w.err)
	}
	if p.err != nil {
		return token.Grant{}
	}
	if tok := w.grant.Token; tok.Resource != p.resource || tok.Holder != w.holder {
		p.failf("Wait for %q by %q was granted %q to %q", p.resource, w.holder, tok.Resource, tok.Holder)
	}
	return w.grant
}

// returned waits until the Wait has an answer. Who is overtaken by somebody that
// asked later may not have been in line yet.
func (p *probe) returned(w *waiting) {
	for start := time.Now(); p.err == nil; {
		select {
		case <-w.done:
			return
		case <-time.After(leastSettle):
		}
		if other := p.overtaker(w); other != nil {
			p.suspectf("%q was served before %q, who had asked before", other.holder, w.holder)
		} else if time.Since(start) > patience {
			p.failf("Wait by %q has no answer after %s", w.holder, patience)
		}
	}
}

// overtaker is somebody who asked later than w and was granted the resource
// while w stayed in line, or nil. Who leaves is not overtaken: the line goes on
// without it, and may do so before its Wait is back. Whether it left is looked
// at last, so that it had not when the other was served.
func (p *probe) overtaker(w *waiting) *waiting {
	for _, other := range (*p.asked)[slices.Index(*p.asked, w)+1:] {
		select {
		case <-other.done:
			if other.err == nil && w.ctx.Err() == nil {
				return other
			}
		default:
		}
	}
	return nil
}

// first waits until somebody of those who stay in line has an answer.
func (p *probe) first() *waiting {
	for p.err == nil {
		select {
		case w := <-p.served:
			if !errors.Is(w.err, errLeft) {
				return w
			}
		case <-time.After(patience):
			p.failf("nobody in line has an answer after %s", patience)
		}
	}
	return &waiting{}
}

var errLeft = errors.New("tokentest: left the line")

// left takes w out of the line, who must not have been granted anything.
func (p *probe) left(w *waiting) {
	w.leave(errLeft)
	p.returned(w)
	if p.err == nil && !errors.Is(w.err, errLeft) {
		p.failf("Wait by %q, whose context had ended, returned %v, want the context's cause", w.holder, w.err)
	}
}
