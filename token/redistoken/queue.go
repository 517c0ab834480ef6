package redistoken

import (
	"context"
	"crypto/rand"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fencepost/fencepost/token"
)

const (
	// maxLocalTurns bounds how often in a row a lock is handed over within one process
	// while other processes wait for it.
	maxLocalTurns = 64
	// minHandoffTTL is long enough for a renewal after a third of it, if round trips take
	// their usual time.
	minHandoffTTL = 250 * time.Millisecond
)

// waitState is the state of this process's waiters, for all resources. Its zero value is
// ready for use.
type waitState struct {
	mu            sync.Mutex
	queues        map[string]*waitQueue    // by the lock's key
	channels      map[string]*channel      // by name
	subscriptions map[string]*subscription // by the server's address
	processID     string                   // in the names of channels

	ctx         context.Context // ends with Close
	cancel      context.CancelFunc
	closed      bool
	background  sync.WaitGroup // all background goroutines
	idleSince   time.Time      // when the last waiter left
	idleTimeout time.Duration  // set by tests; zero means subscriptionIdleTimeout
}

// start initialises s for its first waiter. The caller holds s.mu.
func (s *waitState) start() {
	if s.ctx != nil {
		return
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.queues, s.channels, s.subscriptions = map[string]*waitQueue{}, map[string]*channel{}, map[string]*subscription{}
	s.processID = rand.Text()
}

// add puts w into the queue for k and reports whether it is the only waiter there. It
// adds the waiter in the same critical section in which it decrements the listener count,
// so that a subscription that fails in between is re-established.
func (s *waitState) add(k *keys, ch *channel, w *waiter) (q *waitQueue, alone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch.listeners--
	if q = s.queues[k.lock]; q == nil {
		q = &waitQueue{keys: k, channel: ch.name, held: map[string]*hold{}}
		s.queues[k.lock] = q
	}
	q.add(w)
	return q, len(q.waiters) == 1
}

// isHolder reports whether holder has k's lock, according to this process's state. If it
// does, its Wait need not queue.
func (s *waitState) isHolder(k *keys, holder string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[k.lock]
	return q != nil && q.holder == holder
}

// untilPoll returns how long w has to wait before its next poll.
func (s *waitState) untilPoll(w *waiter) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.pollDue.IsZero() {
		return maxPollInterval // the first waiter of the process polls
	}
	return time.Until(w.pollDue)
}

// startPoll records that w is about to be put into the queue in Redis. It returns false
// if another waiter polls for this process. A waiter that has the lock already polls too:
// the reply grants it again.
func (s *waitState) startPoll(q *waitQueue, w *waiter) (ticket string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(q.waiters, w) || q.first() != w && !w.inRedis && q.holder != w.holder {
		w.pollDue = time.Time{}
		return "", false
	}
	w.inRedis, w.polling, w.early = true, true, nil
	return w.ticket, true
}

// pollFailed schedules the next poll of w after a failure, and returns err.
func (s *waitState) pollFailed(q *waitQueue, w *waiter, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.polling, q.failure = false, err
	w.pollAt(time.Now().Add(pollDelay(10 * minReconnectBackoff)))
	return err
}

// remove removes w from q. It reports whether the queue in Redis may contain w, and
// returns the handoff that names w, or nil.
func (s *waitState) remove(q *waitQueue, w *waiter) (inRedis bool, h *handoff) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.remove(w, w.ticket)
	s.prune(q)
	return w.inRedis, w.handoff
}

// prune deletes q if it is empty. The caller holds s.mu.
func (s *waitState) prune(q *waitQueue) {
	s.idleSince = time.Now()
	if q.empty() && s.queues[q.keys.lock] == q { // a late reply may belong to a queue that was replaced
		delete(s.queues, q.keys.lock)
	}
}

// sweep deletes expired leases, and reports whether there has been no waiter for the idle
// timeout. The caller holds s.mu.
func (s *waitState) sweep() (idle bool) {
	now := time.Now()
	waiters := 0
	for lock, q := range s.queues {
		for holder, held := range q.held {
			if held.until.Before(now) {
				delete(q.held, holder)
			}
		}
		if waiters += len(q.waiters); q.empty() {
			delete(s.queues, lock)
		}
	}
	for _, ch := range s.channels {
		waiters += ch.listeners
	}
	return waiters == 0 && now.Sub(s.idleSince) >= s.maxIdle()
}

// maxIdle returns how long the subscriptions stay open without a waiter.
func (s *waitState) maxIdle() time.Duration {
	if s.idleTimeout == 0 {
		return subscriptionIdleTimeout
	}
	return s.idleTimeout
}

// lastReply returns the holder of q's lock according to this process's state, or nil. If
// the last poll has failed, it returns that error instead.
func (s *waitState) lastReply(q *waitQueue) (*token.HeldError, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.failure != nil || q.holder == "" {
		return nil, q.failure
	}
	return &token.HeldError{Resource: q.keys.resource, Holder: q.holder, Remaining: max(0, time.Until(q.until))}, nil
}

// waitQueue is the queue of this process's waiters for one resource, in the order of
// arrival. They share one member of the queue in Redis: the member of the first waiter.
// waitState.mu guards it.
type waitQueue struct {
	keys    *keys
	channel string // the name of the channel for its notifications
	waiters []*waiter
	// current is the waiter that was granted the lock. turns is how many more waiters of
	// this process may have the lock before other processes: the waiters that were there
	// when the lock was granted.
	current string
	turns   int
	// held has the waiters that were granted the lock and have not released it, by holder.
	// A late notification for one of them is ignored. A notification for any other holder
	// is for a lock that no caller in this process will use.
	held map[string]*hold
	// holder has the lock until until, according to this process's state.
	holder string
	until  time.Time
	// failure is the error of the last poll, or nil if the server has answered it.
	failure error
}

// hold is a grant to a waiter that has not released it. waitState.mu guards its fields.
type hold struct {
	until  time.Time // the end of the lease
	number int64
	ending bool // the release is on its way
}

// includes reports whether h, which may be nil, is in use, or is the grant of a lock that
// was handed over with number, or a later one. If so, this process must not send a release
// of its own: it could arrive before the holder's, on another connection, and the holder's
// would return token.ErrLost.
func (h *hold) includes(number int64) bool {
	return h != nil && (!h.ending || number <= h.number)
}

func (q *waitQueue) first() *waiter {
	if len(q.waiters) == 0 {
		return nil
	}
	return q.waiters[0]
}

func (q *waitQueue) find(holder string) *waiter {
	if n := slices.IndexFunc(q.waiters, func(w *waiter) bool { return w.holder == holder }); n >= 0 {
		return q.waiters[n]
	}
	return nil
}

// empty reports whether q has neither a waiter nor a holder.
func (q *waitQueue) empty() bool { return len(q.waiters) == 0 && len(q.held) == 0 }

// add appends w. The first waiter polls, and a waiter that has the lock already.
func (q *waitQueue) add(w *waiter) {
	if q.waiters = append(q.waiters, w); len(q.waiters) == 1 || q.holder == w.holder {
		w.pollAt(time.Now())
	}
}

// remove removes w. If w was the first, the next waiter takes the process's place in
// Redis, with ticket.
func (q *waitQueue) remove(w *waiter, ticket string) {
	n := slices.Index(q.waiters, w)
	if n < 0 {
		return
	}
	q.waiters = slices.Delete(q.waiters, n, n+1)
	if next := q.first(); n == 0 && next != nil && next.pollDue.IsZero() {
		next.ticket = ticket
		next.pollAt(time.Now())
	}
}

// grant ends w's wait with grant and returns true. It returns false if w's wait has
// already ended. turns is how many waiters of this process may have the lock in a row
// after w.
func (q *waitQueue) grant(w *waiter, grant token.Grant, turns int) bool {
	if !slices.Contains(q.waiters, w) {
		return false
	}
	q.held[w.holder] = &hold{until: grant.Until, number: grant.Token.Number}
	q.holder, q.until = w.holder, grant.Until
	q.current, q.turns, q.failure, w.granted = w.holder, turns, nil, true
	q.remove(w, successorTicket(w, turns))
	w.grants <- grant
	return true
}

// successorTicket returns the ticket for the waiter after w: w's own ticket, or "" if the
// process has no turn left, which puts that waiter at the end of the queue.
func successorTicket(w *waiter, turns int) string {
	if turns > 0 {
		return w.ticket
	}
	return ""
}

// localTurns returns how many of the other waiters may have the lock in a row.
func (q *waitQueue) localTurns() int { return min(len(q.waiters), maxLocalTurns) - 1 }

// refused records that w is in the queue in Redis, and schedules its next poll.
func (q *waitQueue) refused(w *waiter, sent time.Time, r *refusal) {
	q.holder, q.until, q.failure = r.Holder, sent.Add(min(r.Remaining, maxPollInterval)), nil
	w.ticket, w.asked, w.clock = r.ticket, sent, r.clock
	w.pollAt(time.Now().Add(pollDelay(r.Remaining)))
	if own := q.find(r.Holder); own != nil {
		own.pollAt(time.Now())
	}
	if w.early != nil {
		q.notified(w, *w.early)
	}
}

// notified grants w the lock that n announces. If n arrived too late, w polls instead.
func (q *waitQueue) notified(w *waiter, n notification) {
	now := time.Now()
	until := w.leaseEnd(now, n.clock)
	if until.Sub(now) < w.handoffTTL/2 {
		w.pollAt(now)
		return
	}
	q.grant(w, q.keys.grant(n.number, w.holder, until), q.localTurns())
}

// waiter is a call of Wait that was refused. waitState.mu guards the fields that are not
// constant.
type waiter struct {
	holder     string        // constant
	ttl        time.Duration // constant: the ttl of the Wait
	handoffTTL time.Duration // constant: the ttl of a lock that is handed to this waiter
	member     string        // constant: its member of the queue in Redis

	ticket  string        // its score in that queue; empty if it is not known
	inRedis bool          // the queue in Redis may contain it
	granted bool          // its Wait has the lock, or had it
	handoff *handoff      // the last handoff that names it, or nil
	asked   time.Time     // when its last poll was sent that was refused
	clock   int64         // the server's at the reply to that poll, in microseconds
	polling bool          // a poll is in flight
	early   *notification // arrived before the reply to the poll in flight; nil if none did
	pollDue time.Time     // zero if it is not the first waiter of its process

	wake   chan struct{}    // receives when pollDue has changed
	grants chan token.Grant // buffered; receives one grant at most
}

func newWaiter(holder, address string, ttl time.Duration) *waiter {
	w := &waiter{
		holder: holder, ttl: ttl, handoffTTL: min(ttl, max(ttl/3, minHandoffTTL)).Truncate(time.Millisecond),
		wake: make(chan struct{}, 1), grants: make(chan token.Grant, 1),
	}
	w.member = holder + "\n" + strconv.FormatInt(w.handoffTTL.Milliseconds(), 10) + "\n" + address
	return w
}

// pollAt schedules w's next poll at due.
func (w *waiter) pollAt(due time.Time) {
	w.pollDue = due
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// leaseEnd returns the end of a lease that was handed over at time clock of the server's
// clock. It does not count from the receipt of the notification, which may have been
// delayed. It counts from w's last answered poll, by the server's clock: what happened at
// w.clock did not happen before w.asked. The start is not later than now, in case the
// server's clock was set forward.
//
// leaseEnd returns the zero time if w has no answered poll, or if that poll is not older
// than the notification: the lock that it announces was lost in the meantime.
func (w *waiter) leaseEnd(now time.Time, clock int64) time.Time {
	if w.clock == 0 || clock <= w.clock {
		return time.Time{}
	}
	handed := w.asked.Add(time.Duration(clock-w.clock) * time.Microsecond)
	if handed.After(now) {
		handed = now
	}
	return handed.Add(w.handoffTTL)
}
