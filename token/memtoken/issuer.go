package memtoken

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fencepost/fencepost/internal/lockstate"
	"github.com/fencepost/fencepost/token"
)

// Issuer is a [token.Issuer] in memory. The zero Issuer is ready for use. An Issuer must
// not be copied. It keeps the last number of every resource it has ever granted. It is
// safe for concurrent use.
type Issuer struct {
	mu    sync.Mutex
	locks map[string]*timedLock
}

var (
	_ token.Issuer       = (*Issuer)(nil)
	_ token.QueueIssuer  = (*Issuer)(nil)
	_ token.BatchRenewer = (*Issuer)(nil)
	_ token.Recoverer    = (*Issuer)(nil)
	_ token.Inspector    = (*Issuer)(nil)
)

// Acquire implements [token.Issuer].
func (i *Issuer) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (grant token.Grant, err error) {
	if err := check(ctx, resource, holder); err != nil {
		return grant, err
	}
	i.decide(resource, func(l *timedLock, now time.Time) { grant, err = l.Acquire(holder, ttl, now) })
	return grant, err
}

// Wait implements [token.QueueIssuer].
func (i *Issuer) Wait(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	grant, err := i.Acquire(ctx, resource, holder, ttl)
	var held *token.HeldError
	if !errors.As(err, &held) {
		return grant, err
	}
	type result struct {
		grant token.Grant
		err   error
	}
	served := make(chan result, 1)
	w := &lockstate.Waiter{Holder: holder, TTL: ttl, Served: func(g token.Grant, err error) { served <- result{g, err} }}
	i.decide(resource, func(l *timedLock, now time.Time) { l.Join(w, now) })
	select {
	case r := <-served:
		return r.grant, r.err
	case <-ctx.Done():
		i.decide(resource, func(l *timedLock, now time.Time) { l.Leave(w, now) })
		return token.Grant{}, errors.Join(context.Cause(ctx), held)
	}
}

// Renew implements [token.Issuer].
func (i *Issuer) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (until time.Time, err error) {
	if err := context.Cause(ctx); err != nil {
		return until, err
	}
	i.decide(tok.Resource, func(l *timedLock, now time.Time) { until, err = l.Renew(tok.Holder, ttl, now) })
	return until, err
}

// RenewAll implements [token.BatchRenewer].
func (i *Issuer) RenewAll(ctx context.Context, batch []token.Renewal) {
	for n := range batch {
		r := &batch[n]
		r.Until, r.Err = i.Renew(ctx, r.Token, r.TTL)
	}
}

// Release implements [token.Issuer].
func (i *Issuer) Release(ctx context.Context, tok token.Token) (err error) {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	i.decide(tok.Resource, func(l *timedLock, now time.Time) { err = l.Release(tok.Holder, now) })
	return err
}

// Recover implements [token.Recoverer].
func (i *Issuer) Recover(ctx context.Context, resource string, number int64) (err error) {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	i.decide(resource, func(l *timedLock, now time.Time) { err = l.Recover(number, now) })
	return err
}

// Inspect implements [token.Inspector].
func (i *Issuer) Inspect(ctx context.Context, resource string) (token.State, error) {
	s := token.State{Resource: resource}
	if err := context.Cause(ctx); err != nil {
		return s, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	l := i.locks[resource]
	if l == nil {
		return s, nil
	}
	s.Number = l.Number
	if left := time.Until(l.Grant.Until); left > 0 {
		s.Holder, s.Remaining = l.Grant.Token.Holder, left
	}
	for _, w := range l.Queue {
		s.Waiters = append(s.Waiters, w.Holder)
	}
	return s, nil
}

// Locks implements [token.Inspector].
func (i *Issuer) Locks(ctx context.Context, prefix string) iter.Seq2[token.State, error] {
	return func(yield func(token.State, error) bool) {
		i.mu.Lock()
		names := slices.Collect(maps.Keys(i.locks))
		i.mu.Unlock()
		for _, name := range names {
			s, err := i.Inspect(ctx, name)
			listed := s.Holder != "" || len(s.Waiters) > 0
			if strings.HasPrefix(name, prefix) && (listed || err != nil) && (!yield(s, err) || err != nil) {
				return
			}
		}
	}
}

// decide runs decision on the resource's lock under the mutex, and then sets the lock's
// timer.
func (i *Issuer) decide(resource string, decision func(l *timedLock, now time.Time)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.locks == nil {
		i.locks = make(map[string]*timedLock)
	}
	l := i.locks[resource]
	if l == nil {
		l = &timedLock{Lock: lockstate.Lock{Resource: resource}}
		i.locks[resource] = l
	}
	now := time.Now()
	decision(l, now)
	l.setTimer(now, func() {
		i.decide(resource, func(l *timedLock, now time.Time) { l.Serve(now) })
	})
}

// check returns an error if ctx has ended, or if a name is not valid for a token.
func check(ctx context.Context, resource, holder string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return token.Token{Resource: resource, Number: 1, Holder: holder}.Validate()
}

// timedLock is a lock with a timer for the end of its grant. The issuer's mutex guards
// it.
type timedLock struct {
	lockstate.Lock
	timer *time.Timer
}

// setTimer makes serve run when the grant ends, if there are waiters: there may be no
// other call by then.
func (l *timedLock) setTimer(now time.Time, serve func()) {
	left := l.Grant.Until.Sub(now)
	switch {
	case len(l.Queue) == 0:
		if l.timer != nil {
			l.timer.Stop()
			l.timer = nil
		}
	case l.timer == nil:
		l.timer = time.AfterFunc(left, serve)
	default:
		l.timer.Reset(left)
	}
}
