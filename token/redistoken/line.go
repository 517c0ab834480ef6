package redistoken

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fencepost/fencepost/token"
)

// mostTurns bounds how often in a row a lock is handed over inside one process
// while other processes wait for it.
const mostTurns = 64

// line is the waiters of this process for one resource, first come, first
// served. All of them stand behind one member of the line in Redis, which is
// that of the first. It is guarded by the hall's mutex.
type line struct {
	keys    *keys
	channel string // of the inbox
	waiters []*waiter
	// current was granted the lock, and turns is how many of this process may
	// have it next before other processes: those who waited when it was granted.
	current string
	turns   int
	// held are the waiters that were granted the lock and have not given it
	// back, and until when they have it. A late message for one of them says
	// nothing new; one for anybody else is of a lock that nobody here will use.
	held map[string]time.Time
	// holder is who has the lock, until then, as far as this process was told.
	holder string
	until  time.Time
}

func (l *line) first() *waiter {
	if len(l.waiters) == 0 {
		return nil
	}
	return l.waiters[0]
}

func (l *line) find(holder string) *waiter {
	if n := slices.IndexFunc(l.waiters, func(w *waiter) bool { return w.holder == holder }); n >= 0 {
		return l.waiters[n]
	}
	return nil
}

// join puts w at the end. The first has to ask.
func (l *line) join(w *waiter) {
	if l.waiters = append(l.waiters, w); len(l.waiters) == 1 {
		w.remind(time.Now())
	}
}

// remove takes w out. Where it was the first the next stands in line in Redis
// for the process, by ticket.
func (l *line) remove(w *waiter, ticket string) {
	n := slices.Index(l.waiters, w)
	if n < 0 {
		return
	}
	l.waiters = slices.Delete(l.waiters, n, n+1)
	if next := l.first(); n == 0 && next != nil && next.due.IsZero() {
		next.ticket = ticket
		next.remind(time.Now())
	}
}

// serve ends w's waiting with grant, unless something else has ended it, and
// answers whether it did. turns is how many of the process may follow in a row.
func (l *line) serve(w *waiter, grant token.Grant, turns int) bool {
	if !slices.Contains(l.waiters, w) {
		return false
	}
	l.held[w.holder], l.holder, l.until = grant.Until, w.holder, grant.Until
	l.current, l.turns = w.holder, turns
	l.remove(w, l.place(w, turns))
	w.grants <- grant
	return true
}

// place is the ticket for who follows w: w's place, or the end of the line
// where the process has no turn left.
func (l *line) place(w *waiter, turns int) string {
	if turns > 0 {
		return w.ticket
	}
	return ""
}

// turn is how many others who wait now may have the lock in a row.
func (l *line) turn() int { return min(len(l.waiters), mostTurns) - 1 }

// refused notes that w stands in line in Redis, and when it is to ask again.
func (l *line) refused(w *waiter, sent time.Time, r *refusal) {
	l.holder, l.until = r.Holder, sent.Add(min(r.Remaining, longestPoll))
	w.ticket, w.asked = r.ticket, anchor{sent, r.clock}
	w.remind(time.Now().Add(pollAfter(r.Remaining)))
	if w.early != nil {
		l.handed(w, *w.early)
	}
}

// handed serves w what the message says, unless it took too long: then w asks
// again, and finds the lock its own or another's.
func (l *line) handed(w *waiter, m message) {
	now := time.Now()
	until := w.until(now, m.clock)
	if until.Sub(now) < w.accept/2 {
		w.remind(now)
		return
	}
	tok := token.Token{Resource: l.keys.resource, Number: m.number, Holder: w.holder}
	l.serve(w, token.Grant{Token: tok, Until: until}, l.turn())
}

// longestPoll bounds how long a lost message can go unnoticed where the lock
// lasts longer, or for ever.
const longestPoll = time.Minute

// pollAfter spreads those who wait for one expiry: the first to ask hands the
// lock to whose turn it is.
func pollAfter(left time.Duration) time.Duration {
	left = min(left, longestPoll)
	return left + 2*time.Millisecond + rand.N(left/16+8*time.Millisecond)
}

// idle says that nobody here waits for the lock or has it from waiting.
func (l *line) idle() bool { return len(l.waiters) == 0 && len(l.held) == 0 }
