package pgtoken

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencepost/fencepost/token"
)

const (
	defaultPoll = 50 * time.Millisecond
	// minRecheck and maxRecheck bound the interval at which a waiter polls although it
	// receives notifications.
	minRecheck, maxRecheck = 250 * time.Millisecond, 5 * time.Second
)

var errNoReply = fmt.Errorf("%w: no reply in time", token.ErrUnreachable)

// The tests set longer ones: on a busy machine, a late waiter would lose its place.
var (
	// releaseTimeout bounds the time to leave the queue and to close a connection. If it
	// passes, the ttl ends what remains.
	releaseTimeout = time.Second
	// cancelDelay is how long a poll continues after its context has ended.
	cancelDelay = time.Second / 2
	// minStallTimeout is the least time for which a waiter that polls keeps its place
	// without a poll.
	minStallTimeout = time.Second
)

// Wait implements [token.QueueIssuer]. Waiters are rows of a table. A release hands the
// resource to the first of them and notifies only that waiter, through a connection that
// all waiters of the Issuer share: see Poll. The first lease lasts a third of the ttl, at
// least 250 ms and at most the ttl. The caller must renew it within that time.
func (i *Issuer) Wait(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	if err := checkToken(resource, holder, ttl); err != nil {
		return token.Grant{}, err
	}
	w := &waiter{issuer: i, waiterKey: waiterKey{resource, holder}, ttl: ttl, notified: make(chan notification, 1)}
	i.queue.enter(w)
	grant, err := w.wait(ctx)
	i.queue.exit(w, err != nil)
	if err == nil {
		return grant, nil
	}
	left := i.leave(ctx, w.waiterKey)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	switch {
	case w.last.holder == "": // the last poll has failed
	case left != nil:
		err = fmt.Errorf("%w: leaving the queue failed: %w", err, left)
	default:
		err = fmt.Errorf("%w: %w", err, w.last.held(resource))
	}
	return token.Grant{}, fmt.Errorf("pgtoken: wait for %s: %w", resource, err)
}

// leave removes a waiter from the queue. If the resource was handed to it at the same
// moment, leave hands it to the next waiter.
func (i *Issuer) leave(ctx context.Context, key waiterKey) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), releaseTimeout, errNoReply)
	defer cancel()
	var had bool
	return i.run(ctx, leaveSQL, []any{key.resource, key.holder}, &had)
}

// waiter is one call of Wait.
type waiter struct {
	issuer *Issuer
	waiterKey
	ttl      time.Duration
	notified chan notification

	asked time.Time // when the poll was sent whose reply is last
	last  reply     // the last refusal, or zero if a later poll has failed
}

func (w *waiter) wait(ctx context.Context) (token.Grant, error) {
	for {
		now := w.issuer.queue.current()
		sent := time.Now()
		r, err := w.poll(ctx, now, sent)
		if err == nil {
			err = context.Cause(ctx) // if the poll was granted, leave hands the resource to the next waiter
		}
		if err != nil {
			return token.Grant{}, err
		}
		if r.granted() {
			return r.grant(w.issuer, w.resource, w.holder, sent, w.ttl), nil
		}
		if now.mode == idle {
			if now = w.issuer.queue.startListening(w.issuer); now.mode == listening {
				continue // send the channel to the server
			}
		}
		if grant, ok, err := w.await(ctx, now); ok || err != nil {
			return grant, err
		}
	}
}

// poll sends one request for the resource. The first refusal puts the waiter into the
// queue. poll continues for cancelDelay after ctx has ended, to prevent the following:
//
//  1. ctx ends, and the client abandons the statement.
//  2. On another connection, the waiter leaves the queue.
//  3. The server runs the statement, and grants the resource to a waiter that has
//     returned.
func (w *waiter) poll(ctx context.Context, now state, sent time.Time) (reply, error) {
	if err := context.Cause(ctx); err != nil {
		return reply{}, err
	}
	lasting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(cancelDelay, func() { cancel(errNoReply) })
	})()
	r, err := w.issuer.request(lasting, waitSQL, w.resource, w.holder, w.ttl.Microseconds(), w.issuer.Claims,
		now.channel, w.last.ticket, w.issuer.stallTimeout().Microseconds())
	if !r.granted() {
		w.asked, w.last = sent, r
	}
	return r, err
}

// await returns a grant, or no grant when it is time to poll again: the lease of the
// holder may have ended, or the state has changed. An extra poll does no harm.
func (w *waiter) await(ctx context.Context, now state) (token.Grant, bool, error) {
	select {
	case n := <-w.notified:
		// A notification that is older than the last reply is obsolete. If it arrived too
		// late for a renewal, poll: the lease may still be this waiter's.
		grant := n.grant(w.issuer, w.asked, w.last.clock)
		return grant, n.reply.clock >= w.last.clock && time.Until(grant.Until) > n.ttl.duration()/2, nil
	case <-ctx.Done():
		return token.Grant{}, false, context.Cause(ctx)
	case <-now.changed:
	case <-time.After(w.pollDelay(now)):
	}
	return token.Grant{}, false, nil
}

// pollDelay returns the time until the holder's lease ends, since no notification reports
// an expiry. The delay is bounded, since the lease may end before the time in the last
// reply: if the holder shortens it, or if the resource is handed to a waiter that dies.
func (w *waiter) pollDelay(now state) time.Duration {
	most := w.issuer.pollInterval()
	if now.mode == listening {
		most = min(max(w.ttl/3, minRecheck), maxRecheck)
	}
	delay := min(w.last.remaining.duration()+time.Millisecond, most)
	return delay + rand.N(delay/8+time.Millisecond)
}

func (i *Issuer) pollInterval() time.Duration {
	if i.Poll > 0 {
		return i.Poll
	}
	return defaultPoll
}

// stallTimeout is how long a waiter that polls keeps its place without a poll.
func (i *Issuer) stallTimeout() time.Duration { return max(5*i.pollInterval(), minStallTimeout) }
