package redistoken

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fencepost/fencepost/token"
)

const (
	// queueExpiry is how long a queue is kept in Redis after the last poll. Waiters poll
	// at least once a minute.
	queueExpiry = 5 * time.Minute
	// maxPollInterval bounds how long a lost notification has no effect if the lock has a
	// longer expiry, or none.
	maxPollInterval = time.Minute
	// releaseTimeout bounds the requests for a waiter whose Wait is about to return.
	releaseTimeout = time.Second
	// stallTimeout is how long a waiter waits for a server that does not reply.
	stallTimeout = 10 * time.Second
)

// ErrClosed is returned by a Wait that would have to wait when the Issuer is closed.
var ErrClosed = errors.New("redistoken: issuer is closed")

var errStalled = fmt.Errorf("%w: the server does not reply", token.ErrUnreachable)

// Wait implements [token.QueueIssuer]. It first tries to acquire. If the lock is held, it
// waits in a queue in Redis that all processes share, in the order of arrival. The
// waiters of one process for one resource share one entry of that queue. When the entry
// is at the head, they have the lock in turn, up to 64 of them, before the next process.
// The ttl is rounded down to whole milliseconds; less than one is an error.
//
// The first Wait that is refused subscribes: see Close. A lock that is handed over is
// first granted for a third of ttl, at least 250 ms and at most ttl. If the server does
// not reply, Wait continues for up to twenty seconds. If ctx ends while the server does
// not reply, Wait returns up to a second and a half later, since it tries to leave the
// queue.
func (i *Issuer) Wait(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	ttl, k, err := i.request(resource, holder, ttl)
	if err != nil {
		return token.Grant{}, err
	}
	if cause := context.Cause(ctx); cause != nil {
		return token.Grant{}, waitError(ctx, k, nil, cause) // without a release: holder may have had the lock before this call
	}
	var held *token.HeldError
	if !i.subscribed(k) || i.state.isHolder(k, holder) {
		grant, err := i.acquire(ctx, k, holder, ttl, releaseTimeout/2)
		if err == nil {
			return grant, nil
		}
		if !errors.As(err, &held) {
			i.releaseBestEffort(ctx, k, holder)
			if context.Cause(ctx) != nil {
				err = waitError(ctx, k, nil, err)
			}
			return token.Grant{}, err
		}
	}
	address, ch, err := i.openChannel(ctx, k)
	if err != nil {
		return token.Grant{}, waitError(ctx, k, held, err)
	}
	w := newWaiter(holder, address, ttl)
	q, alone := i.state.add(k, ch, w)
	grant, err := i.waitTurn(ctx, q, w, held != nil || !alone)
	if err != nil {
		return token.Grant{}, err
	}
	return i.replicated(ctx, k, grant, ttl)
}

// waitTurn waits in q until w is granted the lock. answered reports whether the server
// has replied to an earlier request of this Wait. If it has not, the first failure ends
// the Wait.
func (i *Issuer) waitTurn(ctx context.Context, q *waitQueue, w *waiter, answered bool) (token.Grant, error) {
	timer := time.NewTimer(maxPollInterval)
	defer timer.Stop()
	var failingSince time.Time // zero while the server replies
	for {
		select {
		case grant := <-w.grants:
			return grant, nil
		case <-ctx.Done():
			return token.Grant{}, i.leave(ctx, q, w, context.Cause(ctx))
		case <-i.state.ctx.Done():
			return token.Grant{}, i.leave(ctx, q, w, ErrClosed)
		case <-w.wake:
		case <-timer.C:
		}
		if wait := i.state.untilPoll(w); wait > 0 {
			timer.Reset(wait)
			continue
		}
		grant, err := i.poll(ctx, q, w)
		switch {
		case err == nil && grant.Token.Number > 0:
			return grant, nil
		case err == nil:
			answered, failingSince = true, time.Time{}
		case failingSince.IsZero() && answered && !isFinal(err):
			failingSince = time.Now()
		case !answered || isFinal(err) || time.Since(failingSince) > stallTimeout:
			return token.Grant{}, i.leave(ctx, q, w, err)
		}
		timer.Reset(i.state.untilPoll(w))
	}
}

// isFinal reports whether a retry after err cannot succeed.
func isFinal(err error) bool {
	var counter *counterError
	return errors.Is(err, token.ErrExhausted) || errors.As(err, &counter) || isRefusal(err)
}

// poll runs wait.lua for w: either the lock is granted, or w is then in the queue in
// Redis. poll returns neither a grant nor an error if another waiter polls for this
// process, or if w has to wait. It continues for a moment after ctx has ended, so that it
// has taken effect before leave runs.
func (i *Issuer) poll(ctx context.Context, q *waitQueue, w *waiter) (token.Grant, error) {
	ticket, ok := i.state.startPoll(q, w)
	if !ok {
		return token.Grant{}, nil
	}
	bound, cancel := pollContext(ctx, releaseTimeout/2)
	defer cancel()
	sent := time.Now()
	reply, err := i.run(bound, waitScript, q.keys,
		w.holder, w.ttl.Milliseconds(), w.member, ticket, queueExpiry.Milliseconds())
	if errors.Is(err, context.Canceled) {
		err = errStalled
	}
	var number int64
	var refused *refusal
	if err == nil {
		number, refused, err = parseGrant(reply, q.keys.resource)
	}
	if err != nil {
		return token.Grant{}, i.state.pollFailed(q, w, err)
	}
	i.state.mu.Lock()
	defer i.state.mu.Unlock()
	w.polling = false
	if refused != nil {
		if slices.Contains(q.waiters, w) {
			q.refused(w, sent, refused)
		}
		return token.Grant{}, nil
	}
	grant := q.keys.grant(number, w.holder, sent.Add(w.ttl))
	turns := q.localTurns()
	if h := w.handoff; h != nil && h.ownTurn && h.next == w {
		turns = h.turns // this process's release granted the lock, and its reply was not read yet
	}
	if q.grant(w, grant, turns) {
		<-w.grants // poll returns it instead
	} else { // this process's release has granted the lock in the meantime, for a shorter time
		q.held[w.holder] = &hold{until: grant.Until, number: number}
	}
	return grant, nil
}

// pollContext returns a context that ends a delay after ctx does, and after stallTimeout
// at the latest.
func pollContext(ctx context.Context, delay time.Duration) (context.Context, context.CancelFunc) {
	bound, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), stallTimeout, errStalled)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(delay, cancel) })
	return bound, func() { stop(); cancel() }
}

// pollDelay returns the delay before the poll for a lock that expires after left. left
// may be negative if the reply was slow. The delay is random, so that the waiters of
// several processes do not poll at the same moment: the first poll hands the lock to the
// head of the queue.
func pollDelay(left time.Duration) time.Duration {
	left = max(0, min(left, maxPollInterval))
	return left + 2*time.Millisecond + rand.N(left/16+8*time.Millisecond)
}

// leave removes w from the queue and returns cause as a waitError, with the holder of the
// lock if the server has answered the last poll and this request. If w was granted the
// lock at the same moment, leave hands it to the next waiter.
func (i *Issuer) leave(ctx context.Context, q *waitQueue, w *waiter, cause error) error {
	held, failed := i.state.lastReply(q)
	inRedis, handoff := i.state.remove(q, w)
	if inRedis {
		ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), releaseTimeout, errStalled)
		defer cancel()
		if handoff != nil {
			select {
			case <-handoff.done: // before that, w could be handed the lock after it has left
			case <-ctx.Done():
			}
		}
		if _, err := i.release(ctx, q.keys, w.holder, w); err != nil {
			failed = fmt.Errorf("leaving the queue failed; a grant to it ends after %s: %w", w.handoffTTL, err)
		}
	}
	if failed != nil && !errors.Is(cause, failed) {
		held, cause = nil, fmt.Errorf("%w (%w)", cause, failed)
	}
	return waitError(ctx, q.keys, held, cause)
}

// waitError returns the error of a Wait that ended because of err. It has held only if
// err is the end of ctx: a Wait that the server has refused is no contention.
func waitError(ctx context.Context, k *keys, held *token.HeldError, err error) error {
	switch cause := context.Cause(ctx); {
	case cause == nil:
	case !errors.Is(err, cause):
		err = fmt.Errorf("%w: %w", cause, err)
	case held != nil:
		err = fmt.Errorf("%w (%w)", err, held)
	}
	return fmt.Errorf("redistoken: wait for %s: %w", k.resource, err)
}
