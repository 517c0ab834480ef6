package redistoken

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/token"
)

var _ token.Waiter = (*Issuer)(nil)

const (
	// keepLine is how long a line lives in Redis that no waiter asks about:
	// they ask every minute.
	keepLine = 5 * time.Minute
	// goodbye bounds what is done for a waiter that has given up.
	goodbye = time.Second
	// patience is how long a server may fail to answer those who wait.
	patience = 10 * time.Second
)

// Wait implements [token.Waiter]. It asks at once, and waits in Redis, in a
// line that all processes share: first come, first served. Those who wait in
// one process for one resource stand behind one entry: when it is their
// process's turn each of them has the lock once, up to 64, before the next
// process. Of ttl only whole milliseconds count, and at least one is needed.
//
// The first wait that is refused subscribes: see Close. What was handed over
// is granted for a third of ttl, at least 250 ms, at most ttl. While the server
// does not answer, for twenty seconds at most, waiting goes on. When ctx ends,
// leaving the line of a server that does not answer takes a second and a half.
func (i *Issuer) Wait(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	ttl, k, err := i.request(resource, holder, ttl)
	if err != nil {
		return token.Grant{}, err
	}
	if cause := context.Cause(ctx); cause != nil {
		return token.Grant{}, i.gaveUp(k, nil, cause) // nothing was asked: holder may have the lock from before
	}
	var held *token.HeldError
	if !i.listening(k) || i.hall.holds(k, holder) {
		grant, err := i.acquire(ctx, k, holder, ttl)
		if err == nil {
			return grant, nil
		}
		if !errors.As(err, &held) {
			i.abandon(ctx, k, holder)
			return token.Grant{}, err
		}
	}
	inbox, box, err := i.listen(ctx, k)
	if err != nil {
		return token.Grant{}, i.gaveUp(k, held, err)
	}
	w := newWaiter(holder, inbox, ttl)
	l, alone := i.hall.join(k, box, w)
	grant, err := i.stand(ctx, l, w, held != nil || !alone)
	if err != nil {
		return token.Grant{}, err
	}
	return i.replicated(ctx, k, grant, ttl)
}

// stand waits in l until w is granted the lock. Where answered is false no
// request of w was answered yet: then a first one that fails is its error.
func (i *Issuer) stand(ctx context.Context, l *line, w *waiter, answered bool) (token.Grant, error) {
	timer := time.NewTimer(longestPoll)
	defer timer.Stop()
	var failing time.Time // since when the server has not answered
	for {
		select {
		case grant := <-w.grants:
			return grant, nil
		case <-ctx.Done():
			return token.Grant{}, i.leave(ctx, l, w, context.Cause(ctx))
		case <-i.hall.ctx.Done():
			return token.Grant{}, i.leave(ctx, l, w, ErrClosed)
		case <-w.wake:
		case <-timer.C:
		}
		if wait := i.hall.due(w); wait > 0 {
			timer.Reset(wait)
			continue
		}
		grant, err := i.ask(ctx, l, w)
		switch {
		case err == nil && grant.Token.Number > 0:
			return grant, nil
		case err == nil:
			answered, failing = true, time.Time{}
		case failing.IsZero() && answered && !errors.Is(err, token.ErrExhausted):
			failing = time.Now()
		case !answered || errors.Is(err, token.ErrExhausted) || time.Since(failing) > patience:
			return token.Grant{}, i.leave(ctx, l, w, err)
		}
		timer.Reset(i.hall.due(w))
	}
}

// gaveUp is the error of a Wait that ended because of err.
func (i *Issuer) gaveUp(k *keys, held *token.HeldError, err error) error {
	if held == nil {
		return fmt.Errorf("redistoken: wait for %s: %w", k.resource, err)
	}
	return fmt.Errorf("redistoken: wait for %s: %w (%w)", k.resource, err, held)
}
