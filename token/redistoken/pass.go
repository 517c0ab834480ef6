package redistoken

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/token"
)

// offer is what release.lua is told of the waiters of this process.
type offer struct {
	line        *line
	next, later *waiter
	turns       int           // of the process, after next
	has, gets   string        // the tickets of next, and then of later
	turn        bool          // it is the process's turn still
	done        chan struct{} // is closed when the answer is there
}

// handover is what release.lua answers of next.
type handover struct {
	number, clock int64
	ticket        string // of later
}

// pass gives back what holder has, or takes a waiter out of the line, and
// answers whether holder had the lock. Who is next gets it, in the same script.
func (i *Issuer) pass(ctx context.Context, k *keys, holder string, leaver *waiter) (owned bool, err error) {
	o := i.hall.offer(k, holder)
	if o == nil {
		argv := []any{holder}
		if leaver != nil {
			argv = o.args(holder, leaver)
		}
		reply, err := i.run(ctx, releaseScript, k, argv...)
		return i.passed(ctx, nil, time.Time{}, reply, err)
	}
	sent := time.Now()
	if err := context.Cause(ctx); err != nil {
		return i.passed(ctx, o, sent, nil, err)
	}
	c := newCall(ctx, releaseScript, k, o.args(holder, leaver)...)
	if !i.answered(ctx, c) {
		go func() { // nobody else tells next of what it got
			<-c.done
			reply, err := c.result()
			_, _ = i.passed(ctx, o, sent, reply, err)
		}()
		return false, context.Cause(ctx)
	}
	reply, err := c.reply(ctx)
	return i.passed(ctx, o, sent, reply, err)
}

// passed reads what release.lua answered, and has o settled, if there was one.
func (i *Issuer) passed(ctx context.Context, o *offer, sent time.Time, reply any, err error) (owned bool, _ error) {
	var next *handover
	if err == nil {
		owned, next, err = passed(reply)
	}
	if o != nil && !i.hall.settle(o, sent, owned, next) {
		i.abandon(ctx, o.line.keys, o.next.holder)
	}
	return owned, err
}

// offer chooses who of this process gets the lock of holder, if it is up to
// this process, and who stands in line then. It is nil where nobody waits.
func (h *hall) offer(k *keys, holder string) *offer {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lines[k.lock]
	if l == nil {
		return nil
	}
	delete(l.held, holder)
	next := l.first()
	if next == nil {
		h.tidy(l)
		return nil
	}
	o := &offer{line: l, next: next, has: next.ticket, turns: l.turn(), done: make(chan struct{})}
	if o.turn = l.current == holder && l.turns > 0; o.turn {
		o.turns = l.turns - 1
	}
	l.current = ""
	next.named, next.offer = true, o
	if len(l.waiters) > 1 {
		o.later, o.gets = l.waiters[1], l.place(next, o.turns)
		o.later.named, o.later.offer = true, o
	}
	return o
}

// args are those of release.lua.
func (o *offer) args(holder string, leaver *waiter) []any {
	args := []any{holder, keepLine.Milliseconds(), "", "", "", "", "", ""}
	if leaver != nil {
		args[2] = leaver.member
	}
	if o == nil {
		return args
	}
	args[3], args[4] = o.next.member, o.has
	if o.later != nil {
		args[5], args[6] = o.later.member, o.gets
	}
	if o.turn {
		args[7] = "1"
	}
	return args
}

// settle tells the waiters what became of the offer. It answers false where next
// got the lock after it had left: somebody has to pass it on.
func (h *hall) settle(o *offer, sent time.Time, owned bool, got *handover) (taken bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer close(o.done)
	switch {
	case got != nil:
		tok := token.Token{Resource: o.line.keys.resource, Number: got.number, Holder: o.next.holder}
		if o.later != nil {
			until := sent.Add(o.next.accept)
			o.later.ticket, o.later.asked = got.ticket, anchor{sent, got.clock}
			if o.line.first() == o.next { // it stays in line: it need not ask before next's time is up
				o.later.remind(time.Now().Add(pollAfter(time.Until(until))))
			}
		}
		taken = o.line.serve(o.next, token.Grant{Token: tok, Until: sent.Add(o.next.accept)}, o.turns)
		h.tidy(o.line)
		_, found := o.line.held[o.next.holder] // by asking
		return taken || found
	case !owned:
		// The lock had been lost, or the answer was: somebody may have it by now.
		if first := o.line.first(); first != nil {
			first.remind(time.Now())
		}
	}
	return true
}
