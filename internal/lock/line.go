package lock

import (
	"slices"
	"time"

	"github.com/fencepost/fencepost/token"
)

// Waiter stands in a line.
type Waiter struct {
	Holder string
	TTL    time.Duration
	// Served is called once, in the decision that grants.
	Served func(token.Grant, error)
}

// Join goes to the end of the line.
func (l *Lock) Join(w *Waiter, now time.Time) {
	l.Line = append(l.Line, w)
	l.Serve(now)
}

// Leave takes a waiter out of the line, and passes on what it was granted just
// now.
func (l *Lock) Leave(w *Waiter, now time.Time) {
	if place := slices.Index(l.Line, w); place >= 0 {
		l.Line = slices.Delete(l.Line, place, place+1)
	} else if l.isHeldBy(w.Holder, now) {
		l.Grant.Until = time.Time{}
	}
	l.Serve(now)
}

// Serve hands a lock that nobody has to the first who waits. Whoever comes by
// does this, so that nobody gets past the line; and somebody must come by when
// the grant ends, for as long as there is a line.
func (l *Lock) Serve(now time.Time) {
	for len(l.Line) > 0 && l.isFree(now) {
		first := l.Line[0]
		l.Line = l.Line[1:]
		first.Served(l.mint(first.Holder, first.TTL, now))
	}
}
