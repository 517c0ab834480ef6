package memtoken

import (
	"time"

	"github.com/fencepost/fencepost/token"
)

// lock is what is known of one resource. All of it is under the issuer's mutex.
type lock struct {
	resource string
	number   int64       // the last one
	grant    token.Grant // who has it, until it ends
	line     []*waiter   // who waits, the first first
	visitor  *time.Timer // serves the line when the grant has ended
}

func clock(now time.Time) int64 { return now.UnixMicro() / 10 }

func (l *lock) isHeldBy(holder string, now time.Time) bool {
	return l.grant.Token.Holder == holder && l.grant.Until.After(now)
}

// held refuses, for the lock that is held at now.
func (l *lock) held(now time.Time) *token.HeldError {
	return &token.HeldError{Resource: l.resource, Holder: l.grant.Token.Holder, Remaining: l.grant.Until.Sub(now)}
}

// give mints. It is asked for who may have the lock now.
func (l *lock) give(w waiter, now time.Time) (token.Grant, error) {
	number := max(l.number+1, clock(now))
	if number > token.MaxNumber {
		return token.Grant{}, token.ErrExhausted
	}
	l.number = number
	l.grant = token.Grant{
		Token: token.Token{Resource: l.resource, Number: number, Holder: w.holder},
		Until: now.Add(w.ttl),
	}
	return l.grant, nil
}

// serve hands a lock that nobody has to the first who waits. Whoever comes by
// does this, so that nobody gets past the line.
func (l *lock) serve(now time.Time) {
	for len(l.line) > 0 && !l.grant.Until.After(now) {
		first := l.line[0]
		l.line = l.line[1:]
		grant, err := l.give(*first, now)
		first.served <- answer{grant, err}
	}
}

// watch has somebody come by when the grant has ended, for as long as there is
// a line.
func (l *lock) watch(now time.Time, visit func()) {
	left := l.grant.Until.Sub(now)
	switch {
	case len(l.line) == 0:
		if l.visitor != nil {
			l.visitor.Stop()
			l.visitor = nil
		}
	case l.visitor == nil:
		l.visitor = time.AfterFunc(left, visit)
	default:
		l.visitor.Reset(left)
	}
}
