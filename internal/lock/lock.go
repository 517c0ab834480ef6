package lock

import (
	"time"

	"github.com/fencepost/fencepost/token"
)

// Lock is what an issuer remembers of one resource. A copy of one without
// waiters is a replica of it.
type Lock struct {
	Resource string
	Number   int64       // the last one
	Grant    token.Grant // who has it, until it ends
	Line     []*Waiter   // who waits, the first first
}

// Clock is the least number that may be minted at now, in units of 10 µs.
func Clock(now time.Time) int64 { return now.UnixMicro() / 10 }

// Acquire grants the lock where nobody has it, or holder does, and refuses with
// a [*token.HeldError] where another has it. Whoever waits comes first.
func (l *Lock) Acquire(holder string, ttl time.Duration, now time.Time) (token.Grant, error) {
	l.Serve(now)
	if l.isFree(now) || l.Grant.Token.Holder == holder {
		return l.mint(holder, ttl, now)
	}
	return token.Grant{}, l.held(now)
}

// Renew makes the grant last for ttl from now, or returns [token.ErrLost].
func (l *Lock) Renew(holder string, ttl time.Duration, now time.Time) (until time.Time, err error) {
	if !l.isHeldBy(holder, now) {
		return time.Time{}, token.ErrLost
	}
	l.Grant.Until = now.Add(ttl)
	l.Serve(now) // it may end sooner now
	return l.Grant.Until, nil
}

// Release frees the lock, or returns [token.ErrLost]. The number stays.
func (l *Lock) Release(holder string, now time.Time) error {
	if !l.isHeldBy(holder, now) {
		return token.ErrLost
	}
	l.Grant.Until = time.Time{}
	l.Serve(now)
	return nil
}

// Raise makes the next number greater than number, as [token.Raiser] has it.
func (l *Lock) Raise(number int64, now time.Time) error {
	switch {
	case number > Clock(now)+token.Poisoned:
		return token.ErrPoisoned
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

// mint is asked for who may have the lock now: the number is made in the
// decision that grants.
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
