package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencepost/fencepost/internal/schedule"
	"github.com/fencepost/fencepost/token"
)

const (
	// releaseTimeout bounds the release of a grant that the caller does not use.
	releaseTimeout = time.Second
	// cancelDelay is how long a request continues after the wait has ended.
	cancelDelay = time.Second / 2
)

var errNoReply = fmt.Errorf("%w: no reply in time", token.ErrUnreachable)

// waitForGrant waits in the issuer's queue if it is a [token.QueueIssuer]. If not, or if
// NoWait is set, it polls.
func (l *Locker) waitForGrant(ctx context.Context, t settings, resource string) (token.Grant, error) {
	waiting, cancel := waitContext(ctx, t.waitTimeout)
	defer cancel()
	if line, ok := l.Issuer.(token.QueueIssuer); ok && !t.noWait {
		return l.extend(waiting, t, line, resource)
	}
	return l.poll(ctx, waiting, t, resource)
}

// extend waits in the queue. If the grant lasts less than the safety margin, it renews
// the grant at once.
func (l *Locker) extend(waiting context.Context, t settings, line token.QueueIssuer, resource string) (token.Grant, error) {
	grant, err := waitInQueue(waiting, line, t, resource)
	if err == nil && schedule.TooLate(time.Until(grant.Until), t.safetyMargin) {
		if until, err := l.Issuer.Renew(waiting, grant.Token, t.ttl); err == nil {
			grant.Until = until
		}
	}
	return grant, err
}

// waitInQueue repeats Wait during an outage, each time with a new holder id, since the
// failed Wait's release may still be on its way:
//
//  1. Wait fails as holder a. It has sent a release of a.
//  2. A second Wait as holder a is granted the resource.
//  3. The release arrives late and ends a lease that is in use.
//
// If both a grant's reply and the release were lost, the next Wait waits until the ttl
// has ended that grant.
func waitInQueue(waiting context.Context, line token.QueueIssuer, t settings, resource string) (token.Grant, error) {
	var out outage
	for {
		grant, err := line.Wait(waiting, resource, newHolder(host, t.name), t.ttl)
		switch {
		case err == nil:
			return grant, nil
		case waiting.Err() != nil:
			return token.Grant{}, waitError(waiting, err, out.err)
		case !out.wait(waiting, err):
			return token.Grant{}, fmt.Errorf("lock: acquire %s: %w", resource, err)
		}
	}
}

// poll repeats Acquire until the issuer grants. It keeps the same holder id, so that the
// next call finds a grant whose reply was lost.
func (l *Locker) poll(ctx, waiting context.Context, t settings, resource string) (token.Grant, error) {
	holder := newHolder(host, t.name)
	var out outage
	if waiting.Err() != nil {
		return token.Grant{}, context.Cause(waiting) // nothing was sent, so there is nothing to release
	}
	for pause := schedule.FirstPause; ; pause = min(2*pause, schedule.LongestPause) {
		grant, err := l.acquireOnce(waiting, t, resource, holder)
		var held *token.HeldError
		switch {
		case err == nil:
			return grant, nil
		case waiting.Err() != nil:
			l.releaseUnused(ctx, t, resource, holder)
			return token.Grant{}, waitError(waiting, err, out.err)
		case !t.noWait && out.wait(waiting, err):
			continue
		case !errors.As(err, &held):
			l.releaseUnused(ctx, t, resource, holder)
			return token.Grant{}, fmt.Errorf("lock: acquire %s: %w", resource, err)
		case t.noWait:
			return token.Grant{}, err
		}
		out = outage{}
		if !sleep(waiting, schedule.Pause(held.Remaining, jitter(pause))) {
			return token.Grant{}, waitError(waiting, held, nil)
		}
	}
}

// acquireOnce calls Acquire. The request continues for cancelDelay after waiting has
// ended, to prevent the following:
//
//  1. The request is sent on one connection, and waiting ends.
//  2. releaseUnused sends a release on another connection. It arrives first and has no
//     effect.
//  3. The request arrives, and grants the resource to a caller that has returned.
func (l *Locker) acquireOnce(waiting context.Context, t settings, resource, holder string) (token.Grant, error) {
	if waiting.Done() == nil {
		return l.Issuer.Acquire(waiting, resource, holder, t.ttl)
	}
	lasting, cancel := context.WithCancelCause(context.WithoutCancel(waiting))
	defer cancel(nil)
	defer context.AfterFunc(waiting, func() {
		time.AfterFunc(cancelDelay, func() { cancel(errNoReply) })
	})()
	return l.Issuer.Acquire(lasting, resource, holder, t.ttl)
}

// releaseUnused releases a grant that the caller does not use, or that a failed Acquire
// may have made, so that other holders do not wait for the TTL. If the release is lost,
// the TTL ends the grant.
func (l *Locker) releaseUnused(ctx context.Context, t settings, resource, holder string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(releaseTimeout, t.ttl))
	defer cancel()
	_ = l.Issuer.Release(ctx, token.Token{Resource: resource, Number: 1, Holder: holder})
}

func waitContext(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	if wait == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, wait, ErrWaitTimeout)
}

// waitError returns the cause of the end of waiting, joined with err, the last call's, and
// with out, the last error of an outage. If the last call was refused because the resource
// is held, the outage is over, and only the refusal is joined.
func waitError(waiting context.Context, err, out error) error {
	var held *token.HeldError
	if errors.As(err, &held) {
		return errors.Join(context.Cause(waiting), held)
	}
	if errors.Is(err, token.ErrUnreachable) {
		out = nil // err is later
	}
	return errors.Join(context.Cause(waiting), err, out)
}

// longestOutagePause is the longest pause between two calls during an outage, before
// jitter, which makes it up to a half longer or shorter.
const longestOutagePause = time.Second

// outage is a period during which the issuer is unreachable.
type outage struct {
	pause time.Duration
	err   error // of the last call
}

// wait pauses before the next call, or until waiting ends. It returns false at once if
// err is not [token.ErrUnreachable]. It also returns false if waiting has no deadline:
// with a wrong address, the wait would never end.
func (o *outage) wait(waiting context.Context, err error) bool {
	if _, bounded := waiting.Deadline(); !bounded || !errors.Is(err, token.ErrUnreachable) {
		return false
	}
	o.err = err
	o.pause = min(max(2*o.pause, schedule.FirstPause), longestOutagePause)
	sleep(waiting, jitter(o.pause))
	return true
}

func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// sleep waits for d, or until ctx ends. It reports whether d has passed.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
