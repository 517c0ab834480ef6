package dst

import (
	"time"
)

// event is an action at a time. Of two events at the same time, the event that was pushed
// first runs first.
type event struct {
	at     time.Duration
	action action
	// who is the actor. The event is dropped if the actor's incarnation has ended by
	// then. Nil means the world. due is the time on the actor's own clock.
	who  actor
	life int
	due  time.Duration
}

// action is what an event does.
type action interface{ do() }

// step is an action made from a function.
type step func()

func (s step) do() { s() }

// actor is a node or process that may be dead or stopped when an event is due.
type actor interface {
	act(e *event)
}

// happen runs the event's action.
func (e *event) happen() {
	if e.who == nil {
		e.action.do()
		return
	}
	e.who.act(e)
}

// eventQueue holds the pending events. Its heap has times and indexes, since events are
// too large to move.
type eventQueue struct {
	heap   []queueEntry
	events []event
	free   []int // free indexes of events
	count  uint64
}

// queueEntry is a time, with the event's rank in its last bits, and the index of the
// event.
type queueEntry struct {
	when  uint64
	place int
}

// ranks is the greatest number of events of a run, which is more than endless. It leaves
// 39 hours of simulated time.
const ranks = 1 << 16

// emptied returns an empty queue that reuses the memory of a.
func (a eventQueue) emptied() eventQueue {
	return eventQueue{heap: a.heap[:0], events: a.events[:0], free: a.free[:0]}
}

func (a *eventQueue) push(e event) {
	a.count++
	t := queueEntry{uint64(e.at)*ranks + a.count, a.keep(e)}
	a.heap = append(a.heap, t)
	a.siftUp(len(a.heap)-1, t)
}

func (a *eventQueue) keep(e event) (place int) {
	if last := len(a.free) - 1; last >= 0 {
		place = a.free[last]
		a.free = a.free[:last]
		a.events[place] = e
		return place
	}
	a.events = append(a.events, e)
	return len(a.events) - 1
}

// pop returns the next event. It is valid until the next push. The queue must not be
// empty.
func (a *eventQueue) pop() *event {
	first, last := a.heap[0], len(a.heap)-1
	moved := a.heap[last]
	a.heap = a.heap[:last]
	if last > 0 {
		a.siftUp(a.siftHoleDown(), moved)
	}
	a.free = append(a.free, first.place)
	return &a.events[first.place]
}

// siftHoleDown moves the earlier children up from the root, and returns the index that is
// then free, near the bottom of the heap.
func (a *eventQueue) siftHoleDown() int {
	heap, i := a.heap, 0
	for 2*i+2 < len(heap) {
		child := 2*i + 1
		if heap[child+1].when < heap[child].when {
			child++
		}
		heap[i] = heap[child]
		i = child
	}
	if child := 2*i + 1; child < len(heap) {
		heap[i] = heap[child]
		i = child
	}
	return i
}

// siftUp puts t at i or above.
func (a *eventQueue) siftUp(i int, t queueEntry) {
	heap := a.heap
	for i > 0 && t.when < heap[(i-1)/2].when {
		heap[i] = heap[(i-1)/2]
		i = (i - 1) / 2
	}
	heap[i] = t
}
