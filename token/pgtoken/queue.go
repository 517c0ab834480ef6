package pgtoken

import (
	"context"
	"sync"
	"time"
)

// mode is how the waiters of an Issuer find out that the resource was granted to them.
type mode int

const (
	idle      mode = iota // no waiter was refused since the start or the last idle timeout
	polling               // until there is a session for notifications, or permanently
	listening             // to channel
)

// state is the current mode. changed is closed when it is replaced.
type state struct {
	mode    mode
	channel int64
	changed chan struct{}
}

const (
	// departedFor is how long the waiter of a failed Wait is remembered: its last poll
	// may be in flight, and may join the queue after the waiter has left.
	departedFor = time.Minute
	// defaultIdleTimeout is how long the connection for notifications is kept without a
	// waiter.
	defaultIdleTimeout = time.Minute
)

// waitQueue has the waiters of one Issuer. The zero value is ready for use.
type waitQueue struct {
	mu        sync.Mutex
	state     state
	waiters   map[waiterKey]*waiter
	departed  map[waiterKey]time.Time // the waiters whose Wait failed, and when it failed
	lastExit  time.Time
	idleAfter time.Duration      // replaces defaultIdleTimeout if above zero
	pollOnly  bool               // there is no listener, and none will be started
	stop      context.CancelFunc // stops the listener
	group     sync.WaitGroup
}

func (q *waitQueue) enter(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiters == nil {
		q.waiters, q.departed = map[waiterKey]*waiter{}, map[waiterKey]time.Time{}
		q.state.changed = make(chan struct{})
	}
	q.waiters[w.waiterKey] = w
}

func (q *waitQueue) exit(w *waiter, failed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lastExit = time.Now()
	if q.waiters[w.waiterKey] == w {
		delete(q.waiters, w.waiterKey)
	}
	for key, at := range q.departed {
		if q.lastExit.Sub(at) > departedFor {
			delete(q.departed, key)
		}
	}
	if failed {
		q.departed[w.waiterKey] = q.lastExit
	}
}

// current returns the current state.
func (q *waitQueue) current() state {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state
}

// set makes all waiters poll again, since they may have missed a notification. The caller
// holds q.mu.
func (q *waitQueue) set(m mode, channel int64) {
	if q.state.changed != nil { // there was a waiter
		close(q.state.changed)
	}
	q.state = state{mode: m, channel: channel, changed: make(chan struct{})}
}

// startListening starts the listener if there is none and DB allows one. It is called
// when the first waiter was refused, since most locks are free. It returns the current
// state.
func (q *waitQueue) startListening(i *Issuer) state {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state.mode != idle {
		return q.state
	}
	q.set(polling, 0)
	pool, ok := i.DB.(connPool)
	if ok && !q.pollOnly && i.Poll <= 0 {
		ctx, stop := context.WithCancel(context.Background())
		q.stop = stop
		q.group.Go(func() {
			defer stop()
			q.listen(ctx, i, pool)
		})
	}
	return q.state
}

// setByListener is set for the listener. After stopListening it does nothing.
func (q *waitQueue) setByListener(m mode, channel int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.pollOnly {
		q.set(m, channel)
	}
}

// stopListening stops the listener and makes all waiters poll from now on.
func (q *waitQueue) stopListening() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pollOnly = true
	q.set(polling, 0)
	if q.stop != nil {
		q.stop()
	}
}

// deliver passes n to its waiter. If that waiter's Wait has failed, the resource is
// handed to the next waiter.
func (q *waitQueue) deliver(i *Issuer, n notification) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w := q.waiters[n.waiterKey]; w != nil {
		select {
		case <-w.notified: // an older notification
		default:
		}
		w.notified <- n
	} else if _, departed := q.departed[n.waiterKey]; departed {
		q.group.Go(func() { _ = i.leave(context.Background(), n.waiterKey) })
	}
}

// stopIfIdle returns to idle if there was no waiter for the idle timeout. It reports
// whether the listener must end.
func (q *waitQueue) stopIfIdle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pollOnly || len(q.waiters) > 0 || time.Since(q.lastExit) < q.idleTimeout() {
		return q.pollOnly
	}
	q.set(idle, 0)
	return true
}

func (q *waitQueue) idleTimeout() time.Duration {
	if q.idleAfter > 0 {
		return q.idleAfter
	}
	return defaultIdleTimeout
}
