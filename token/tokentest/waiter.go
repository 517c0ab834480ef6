package tokentest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fencepost/fencepost/token"
)

const (
	leastSettle = 20 * time.Millisecond
	mostSettle  = 5120 * time.Millisecond // four times the previous at each try
)

var errTryOver = errors.New("tokentest: the try is over")

// settled returns a check for a rule that needs waiters in the queue. It cannot observe
// when they have joined it, so it gives them time. If the check then fails by suspectf,
// or by a timeout (an issuer may bound how long a leaving waiter tries to pass on its
// grant), the machine may have been slow: settled repeats the check on another resource
// with more time. It fails if no time is enough.
func settled(check func(p *probe)) func(p *probe) {
	return func(p *probe) {
		for settle := leastSettle; p.err == nil; settle *= 4 {
			try := p.try(settle)
			check(try)
			try.end()
			if !try.suspect && !errors.Is(try.err, errTimeout) || settle >= mostSettle {
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

// end cancels the waiters that are still in the queue.
func (p *probe) end() {
	p.over(errTryOver)
	home := make(chan struct{})
	go func() {
		p.waiters.Wait()
		close(home)
	}()
	select {
	case <-home:
	case <-time.After(timeout):
		p.err, p.suspect = nil, false
		p.failf("a Wait has not returned %s after its context ended", timeout)
	}
}

// soon is a ttl that is meant to end after two waiters have joined the queue. A third of
// it, which may be the ttl of a hand-off, grows with each try too.
func (p *probe) soon() time.Duration { return 2*short + 4*p.settle }

// suspectf is failf for a result that a correct issuer can also give on a slow machine.
func (p *probe) suspectf(format string, args ...any) {
	if p.err == nil {
		p.suspect = true
	}
	p.failf(format, args...)
}

// waiting is a call of Wait, and its result.
type waiting struct {
	holder string
	holds  bool            // its holder has the resource, so it does not queue
	ctx    context.Context // ends when w leaves
	leave  context.CancelCauseFunc
	done   chan struct{}
	grant  token.Grant // after done
	err    error       // after done
}

// waits calls Wait for holder, and gives the waiter time to join the queue.
func (p *probe) waits(holder string, ttl time.Duration) *waiting {
	w := &waiting{holder: holder, leave: func(error) {}, done: make(chan struct{})}
	if p.err != nil {
		close(w.done)
		return w
	}
	ctx, cancel := context.WithCancelCause(p.ctx)
	w.ctx, w.leave = ctx, cancel
	*p.asked = append(*p.asked, w)
	p.waiters.Go(func() {
		w.grant, w.err = p.wait(ctx, holder, ttl)
		p.served <- w
		close(w.done)
	})
	time.Sleep(p.settle)
	return w
}

func (p *probe) wait(ctx context.Context, holder string, ttl time.Duration) (token.Grant, error) {
	return p.iss.(token.QueueIssuer).Wait(ctx, p.resource, holder, ttl)
}

// handed waits until w is granted the resource, and returns the grant.
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

// returned waits until the Wait has a result. If w is overtaken by a later waiter, w may
// not have joined the queue yet.
func (p *probe) returned(w *waiting) {
	for start := time.Now(); p.err == nil; {
		select {
		case <-w.done:
			return
		case <-time.After(leastSettle):
		}
		if other := p.overtaker(w); other != nil {
			p.suspectf("%q was served before %q, which had called Wait earlier", other.holder, w.holder)
		} else if time.Since(start) > timeout {
			p.failf("Wait by %q: %w", w.holder, errTimeout)
		}
	}
}

// overtaker returns a waiter that called later than w and was granted the resource while
// w stayed in the queue, or nil. The holder itself overtakes no waiter. A waiter that leaves is not overtaken: the queue may
// continue without it before its Wait has returned. So w's context is checked last: if it
// is alive, w had not left when the later waiter was served.
func (p *probe) overtaker(w *waiting) *waiting {
	for _, other := range (*p.asked)[slices.Index(*p.asked, w)+1:] {
		select {
		case <-other.done:
			if other.err == nil && !other.holds && w.ctx.Err() == nil {
				return other
			}
		default:
		}
	}
	return nil
}

// first returns the first waiter with a result, among those that stay in the queue.
func (p *probe) first() *waiting {
	for p.err == nil {
		select {
		case w := <-p.served:
			if !errors.Is(w.err, errLeft) {
				return w
			}
		case <-time.After(timeout):
			p.failf("no Wait has returned: %w", errTimeout)
		}
	}
	return &waiting{}
}

var errLeft = errors.New("tokentest: left the queue")

// left cancels w, whose Wait must return an error. On a slow machine the lease of the
// previous holder may have ended.
func (p *probe) left(w *waiting) {
	w.leave(errLeft)
	p.returned(w)
	if p.err == nil && !errors.Is(w.err, errLeft) {
		p.suspectf("Wait by %q, whose context had ended, returned %v, want the context's cause", w.holder, w.err)
	}
}
