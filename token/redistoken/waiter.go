package redistoken

import (
	"strconv"
	"time"

	"github.com/fencepost/fencepost/token"
)

// waiter is one call of Wait that was refused. What is not said to be constant
// is guarded by the hall's mutex.
type waiter struct {
	holder string        // constant, as are the next three
	ttl    time.Duration // what it asked for
	accept time.Duration // what it is handed
	member string        // what the line in Redis knows it by

	ticket string    // its place there, or empty: not known
	named  bool      // Redis may know it
	offer  *offer    // the last in which it is named, or nil
	asked  anchor    // its last request that was answered by a refusal
	asking bool      // a request is under way
	early  *message  // what came before the answer to it
	due    time.Time // when it is to ask; zero for one that is not the first of its process

	wake   chan struct{}    // due has changed
	grants chan token.Grant // what it was handed: one at most
}

// anchor ties the server's clock to that of this process: what happened by the
// server's clock at clock did not happen before sent.
type anchor struct {
	sent  time.Time
	clock int64 // microseconds
}

// leastAccept is enough for a renewal at the first third, where round trips are
// as they should be.
const leastAccept = 250 * time.Millisecond

func newWaiter(holder, inbox string, ttl time.Duration) *waiter {
	w := &waiter{
		holder: holder, ttl: ttl, accept: min(ttl, max(ttl/3, leastAccept)).Truncate(time.Millisecond),
		wake: make(chan struct{}, 1), grants: make(chan token.Grant, 1),
	}
	w.member = holder + "\n" + strconv.FormatInt(w.accept.Milliseconds(), 10) + "\n" + inbox
	return w
}

// remind makes w ask at due.
func (w *waiter) remind(due time.Time) {
	w.due = due
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// until is the end of the accept period of a lock that was handed over at clock
// by the server's clock. It does not count from now, since the message may have
// been under way for long, but from the last request that was answered before;
// and at the latest from now, should the server's clock have been set forward.
// It is the zero time where w cannot tell: it has no answer, or one that is
// younger than the message, which then is of a lock that was lost meanwhile.
func (w *waiter) until(now time.Time, clock int64) time.Time {
	if w.asked.clock == 0 || clock <= w.asked.clock {
		return time.Time{}
	}
	handed := w.asked.sent.Add(time.Duration(clock-w.asked.clock) * time.Microsecond)
	if handed.After(now) {
		handed = now
	}
	return handed.Add(w.accept)
}
