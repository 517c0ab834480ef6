// Package inflight decides which requests on a resource may run at the same time inside
// one process: requests under one token may, requests under two tokens may not. It has no
// mutex, no channel and no goroutine: callers must synchronize.
//
// Package httpguard calls it under a mutex. Tests call it in every order.
package inflight

import (
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// Queue holds the running and the waiting requests on one resource. The zero Queue is
// empty. A Queue may be moved by copying; after that, only the copy may be used.
type Queue struct {
	highest int64 // the highest number that has entered since the queue was last empty
	running list
	waiting list // requests of the highest number that wait for others to leave
}

// Waiter is woken when its slot stops waiting.
type Waiter interface {
	// Wake is called when the slot runs, or when a newer token has removed it from the
	// queue. It must not call the queue.
	Wake()
}

// Slot is one request in one queue. Its fields Token and Waiter must be set. It must not
// be copied while it is in a queue.
type Slot struct {
	Token   *token.Token
	Waiter  Waiter
	Running bool

	queued bool  // runs or waits
	next   *Slot // in the queue's list
	prev   *Slot
}

// Enter adds s to the queue. It returns the older requests that must be cancelled, and
// whether s has to wait until they have left. If s is refused, it returns an error, and s
// is in no queue.
func (q *Queue) Enter(s *Slot) (older []*Slot, waits bool, err error) {
	if s.Token.Number < q.highest {
		return nil, false, &guard.StaleError{Token: *s.Token}
	}
	if s.Token.Number > q.highest {
		q.highest = s.Token.Number
		q.refuseWaiting()
		for o := q.running.first; o != nil; o = o.next {
			older = append(older, o)
		}
	}
	if q.admits(s) {
		q.run(s)
		return older, false, nil
	}
	q.waiting.push(s)
	return older, true, nil
}

// admits reports whether all running slots have s's token. Comparing with the first is
// enough: a slot with another token is never admitted beside it.
func (q *Queue) admits(s *Slot) bool {
	first := q.running.first
	return first == nil || *first.Token == *s.Token
}

func (q *Queue) run(s *Slot) {
	s.Running = true
	q.running.push(s)
}

// refuseWaiting removes and wakes the slots that wait with a number below the highest.
// They do not run.
func (q *Queue) refuseWaiting() {
	for s := q.waiting.first; s != nil; s = q.waiting.first {
		q.waiting.remove(s)
		s.Waiter.Wake()
	}
}

// Leave removes s from the queue, and admits the slots that waited for it. It does
// nothing if s is in no queue. When the last slot leaves, the queue discards the highest
// number: only a store keeps numbers for longer.
func (q *Queue) Leave(s *Slot) {
	switch {
	case !s.queued:
		return
	case s.Running:
		q.running.remove(s)
		s.Running = false
		q.admitWaiting()
	default:
		q.waiting.remove(s)
	}
	if q.IsEmpty() {
		q.highest = 0
	}
}

// admitWaiting runs the slots that have nothing left to wait for.
func (q *Queue) admitWaiting() {
	var next *Slot
	for w := q.waiting.first; w != nil; w = next {
		next = w.next
		if q.admits(w) {
			q.waiting.remove(w)
			q.run(w)
			w.Waiter.Wake()
		}
	}
}

// IsEmpty reports whether no slot is in the queue.
func (q *Queue) IsEmpty() bool { return q.running.first == nil && q.waiting.first == nil }

// Waiting returns the number of slots that wait for others to leave.
func (q *Queue) Waiting() (n int) {
	for s := q.waiting.first; s != nil; s = s.next {
		n++
	}
	return n
}

// list is a linked list whose links are in the slots themselves.
type list struct{ first, last *Slot }

func (l *list) push(s *Slot) {
	s.queued, s.prev, s.next = true, l.last, nil
	if l.last == nil {
		l.first = s
	} else {
		l.last.next = s
	}
	l.last = s
}

func (l *list) remove(s *Slot) {
	if s.prev == nil {
		l.first = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		l.last = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.queued, s.prev, s.next = false, nil, nil
}
