package pgtoken

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencepost/fencepost/token"
)

const (
	defaultPoll = 50 * time.Millisecond
	// leastLook and mostLook bound how often a waiter that is notified asks again
	// all the same.
	leastLook, mostLook = 250 * time.Millisecond, 5 * time.Second
	// farewell bounds the leaving of the line: the ttl ends the rest.
	farewell = time.Second
	// grace is how long the answer to a question is waited for when nobody wants
	// it any more.
	grace = farewell / 2
)

// Wait implements [token.Waiter]. Waiters stand in a table of the database, and
// a release hands the resource to the first of them and notifies it alone,
// through one connection that all waiters of the Issuer share: see Poll.
// The first third of the ttl, and 250 ms at least where the ttl is not shorter,
// is the waiter's to renew in.
func (i *Issuer) Wait(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	if err := checkAll(resource, holder, ttl); err != nil {
		return token.Grant{}, err
	}
	w := &waiter{issuer: i, place: place{resource, holder}, ttl: ttl, woken: make(chan message, 1)}
	i.line.enter(w)
	grant, err := w.wait(ctx)
	i.line.exit(w, err != nil)
	if err == nil {
		return grant, nil
	}
	i.leave(ctx, w.place)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if w.last.holder != "" {
		err = fmt.Errorf("%w: %w", err, w.last.held(resource))
	}
	return token.Grant{}, fmt.Errorf("pgtoken: wait for %s: %w", resource, err)
}

// leave also passes on what was handed to p in this very moment.
func (i *Issuer) leave(ctx context.Context, p place) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	var had bool
	_ = i.single(ctx, leaveSQL, []any{p.resource, p.holder}, &had)
}

// waiter is one Wait.
type waiter struct {
	issuer *Issuer
	place
	ttl   time.Duration
	woken chan message

	asked time.Time // when the question was sent to which last is the reply
	last  reply
}

func (w *waiter) wait(ctx context.Context) (token.Grant, error) {
	for {
		now := w.issuer.line.now()
		sent := time.Now()
		a, err := w.ask(ctx, now)
		if err == nil {
			err = context.Cause(ctx) // what it was granted all the same, leave passes on
		}
		if err != nil {
			return token.Grant{}, err
		}
		if a.granted() {
			return a.grant(w.resource, w.holder, sent, w.ttl), nil
		}
		w.asked, w.last = sent, a
		if now.mode == unasked {
			if now = w.issuer.line.open(w.issuer); now.mode == listening {
				continue // to say so
			}
		}
		if grant, ok, err := w.sleep(ctx, now); ok || err != nil {
			return grant, err
		}
	}
}

// ask stands in line from the first refusal on. It outlives ctx a little, since
// a question that is cut off may be heard by the server all the same: 1. it is cut
// off; 2. on another connection, its waiter leaves the line; 3. it is granted, to
// nobody.
func (w *waiter) ask(ctx context.Context, now state) (reply, error) {
	if err := context.Cause(ctx); err != nil {
		return reply{}, err
	}
	lasting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(grace, func() { cancel(context.Cause(ctx)) })
	})()
	return w.issuer.ask(lasting, waitSQL, w.resource, w.holder, w.ttl.Microseconds(), w.issuer.Claims,
		now.inbox, w.last.ticket, w.issuer.patience().Microseconds())
}

// sleep ends with a grant, or when it is time to ask again: the lease of the
// holder may have ended, or the notifications come another way. That it was told
// to ask sooner does no harm.
func (w *waiter) sleep(ctx context.Context, now state) (token.Grant, bool, error) {
	timer := time.NewTimer(w.pause(now))
	defer timer.Stop()
	select {
	case m := <-w.woken:
		// What happened before the last reply, that reply knew. And one that
		// has come too late to be renewed is asked for again: it may still be ours.
		grant := m.grant(w.asked, w.last.clock)
		return grant, m.reply.clock >= w.last.clock && time.Until(grant.Until) > m.accept.duration()/2, nil
	case <-ctx.Done():
		return token.Grant{}, false, context.Cause(ctx)
	case <-now.changed:
	case <-timer.C:
	}
	return token.Grant{}, false, nil
}

// pause is until the holder's lease ends, of whose end nobody tells. It may end
// sooner than was said: a holder makes it shorter, or it passes to one who dies.
func (w *waiter) pause(now state) time.Duration {
	most := w.issuer.poll()
	if now.mode == listening {
		most = min(max(w.ttl/3, leastLook), mostLook)
	}
	pause := min(w.last.remaining.duration()+time.Millisecond, most)
	return pause + rand.N(pause/8+time.Millisecond)
}

func (i *Issuer) poll() time.Duration {
	if i.Poll > 0 {
		return i.Poll
	}
	return defaultPoll
}

// patience is how long a waiter that polls keeps its place without a question.
func (i *Issuer) patience() time.Duration { return max(5*i.poll(), time.Second) }
