// Package lockstate decides which holder has a lock, and under which number. It has no
// clock, no goroutine and no network: the caller passes the time.
//
// Packages memtoken and register call it. Tests call it at times of their choice, with
// clocks that go backward.
package lockstate

import (
	"slices"
	"time"

	"github.com/fencepost/fencepost/token"
)

// Lock is an issuer's state of one resource. A copy without waiters is a replica of it.
type Lock struct {
	Resource string
	Number   int64       // the last one
	Grant    token.Grant // the current holder's, until it ends
	Queue    []*Waiter   // the waiters in order of arrival
}

// Clock returns the least number that may be minted at now, in units of 10 µs.
func Clock(now time.Time) int64 { return now.UnixMicro() / 10 }

// Acquire grants the lock if it is free or holder already has it. It returns a
// [*token.HeldError] if another holder has it. Waiters are served first.
func (l *Lock) Acquire(holder string, ttl time.Duration, now time.Time) (token.Grant, error) {
	l.Serve(now)
	if l.isFree(now) || l.Grant.Token.Holder == holder {
		return l.mint(holder, ttl, now)
	}
	return token.Grant{}, l.held(now)
}

// Renew makes the grant last for ttl from now. It returns [token.ErrLost] if holder
// does not have the lock.
func (l *Lock) Renew(holder string, ttl time.Duration, now time.Time) (until time.Time, err error) {
	if !l.isHeldBy(holder, now) {
		return time.Time{}, token.ErrLost
	}
	l.Grant.Until = now.Add(ttl)
	l.Serve(now) // the new ttl may end sooner than the old one
	return l.Grant.Until, nil
}

// Release frees the lock. It returns [token.ErrLost] if holder does not have it. The
// number stays.
func (l *Lock) Release(holder string, now time.Time) error {
	if !l.isHeldBy(holder, now) {
		return token.ErrLost
	}
	l.Grant.Until = time.Time{}
	l.Serve(now)
	return nil
}

// Recover makes the next number greater than number: see [token.Recoverer].
func (l *Lock) Recover(number int64, now time.Time) error {
	switch {
	case number > Clock(now)+token.MaxAhead:
		return token.ErrTooFarAhead
	case l.Number >= number:
		return token.ErrLost
	}
	l.Number = number
	return nil
}

func (l *Lock) isFree(now time.Time) bool { return !l.Grant.Until.After(now) }

func (l *Lock) isHeldBy(holder string, now time.Time) bool {
	return l.Grant.Token.Holder == holder && !l.isFree(now)
}

func (l *Lock) held(now time.Time) *token.HeldError {
	return &token.HeldError{Resource: l.Resource, Holder: l.Grant.Token.Holder, Remaining: l.Grant.Until.Sub(now)}
}

// mint makes the number and the grant in one decision. The caller has checked that
// holder may have the lock.
func (l *Lock) mint(holder string, ttl time.Duration, now time.Time) (token.Grant, error) {
	number := max(l.Number+1, Clock(now))
	if number > token.MaxNumber {
		return token.Grant{}, token.ErrExhausted
	}
	l.Number = number
	l.Grant = token.Grant{
		Token: token.Token{Resource: l.Resource, Number: number, Holder: holder},
		Until: now.Add(ttl),
	}
	return l.Grant, nil
}

// Waiter is a place in the line of one lock.
type Waiter struct {
	Holder string
	TTL    time.Duration
	// Served is called once, inside the decision that grants.
	Served func(token.Grant, error)
}

// Join adds w to the end of the line.
func (l *Lock) Join(w *Waiter, now time.Time) {
	l.Queue = append(l.Queue, w)
	l.Serve(now)
}

// Leave removes w from the line. If w was granted the lock in the meantime, Leave
// frees it for the next waiter.
func (l *Lock) Leave(w *Waiter, now time.Time) {
	if place := slices.Index(l.Queue, w); place >= 0 {
		l.Queue = slices.Delete(l.Queue, place, place+1)
	} else if l.isHeldBy(w.Holder, now) {
		l.Grant.Until = time.Time{}
	}
	l.Serve(now)
}

// Serve grants a free lock to the first waiter. Every decision calls it, so that a
// later caller cannot overtake the line. While there is a line, the owner of the
// Lock must also call it when the grant ends.
func (l *Lock) Serve(now time.Time) {
	for len(l.Queue) > 0 && l.isFree(now) {
		first := l.Queue[0]
		l.Queue = l.Queue[1:]
		first.Served(l.mint(first.Holder, first.TTL, now))
	}
}
