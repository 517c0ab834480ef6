package redistoken

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// SetIdleTimeout sets how long iss keeps its subscriptions without waiters.
func SetIdleTimeout(iss *Issuer, timeout time.Duration) { iss.state.idleTimeout = timeout }

// IsRelease reports whether cmd is a release, or removes a waiter from its queue.
func IsRelease(cmd redis.Cmder) bool {
	args := cmd.Args()
	return len(args) > 1 && (args[1] == releaseScript.hash || args[1] == releaseScript.text)
}

// HeldCount returns how many waiters of iss have a lock, according to iss.
func HeldCount(iss *Issuer) (n int) {
	eachQueue(iss, func(q *waitQueue) { n += len(q.held) })
	return n
}

// WaiterCount returns how many callers wait at iss.
func WaiterCount(iss *Issuer) (n int) {
	eachQueue(iss, func(q *waitQueue) { n += len(q.waiters) })
	return n
}

// PollNow makes the first waiter of every queue poll, as when the lock's remaining time
// has passed.
func PollNow(iss *Issuer) {
	eachQueue(iss, func(q *waitQueue) {
		if w := q.first(); w != nil {
			w.pollAt(time.Now())
		}
	})
}

// PassEnd makes the leases of the waiters of iss that end at until or before end now,
// according to iss, as when until has passed.
func PassEnd(iss *Issuer, until time.Time) {
	eachQueue(iss, func(q *waitQueue) {
		for _, held := range q.held {
			if !held.until.After(until) {
				held.until = time.Now()
			}
		}
	})
}

func eachQueue(iss *Issuer, visit func(q *waitQueue)) {
	iss.state.mu.Lock()
	defer iss.state.mu.Unlock()
	for _, q := range iss.state.queues {
		visit(q)
	}
}
