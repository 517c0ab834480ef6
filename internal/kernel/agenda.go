package kernel

import "time"

// event is something that happens at a time. Of two at the same time the one
// that was put down first comes first.
type event struct {
	at    time.Duration
	order uint64
	do    func()
	// who does it, if that life of it lasts as long; nil: the world. due is when,
	// on its own clock.
	who  actor
	life int
	due  time.Duration
}

// actor is who may have died, or be asleep, when something is to be done.
type actor interface {
	act(e event)
}

func (e *event) before(other *event) bool {
	return e.at < other.at || e.at == other.at && e.order < other.order
}

// happen does it.
func (e event) happen() {
	if e.who == nil {
		e.do()
		return
	}
	e.who.act(e)
}

// agenda is a heap of what is to happen. container/heap would put each event on
// Go's heap too.
type agenda struct {
	events []event
	count  uint64
}

func (a *agenda) push(e event) {
	a.count++
	e.order = a.count
	a.events = append(a.events, e)
	i := len(a.events) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(&a.events[parent]) {
			break
		}
		a.events[i] = a.events[parent]
		i = parent
	}
	a.events[i] = e
}

// pop returns the next event. There must be one.
func (a *agenda) pop() event {
	first, last := a.events[0], len(a.events)-1
	moved := a.events[last]
	a.events[last] = event{}
	a.events = a.events[:last]
	if last == 0 {
		return first
	}
	i := 0
	for {
		least := 2*i + 1
		if least >= last {
			break
		}
		if right := least + 1; right < last && a.events[right].before(&a.events[least]) {
			least = right
		}
		if !a.events[least].before(&moved) {
			break
		}
		a.events[i] = a.events[least]
		i = least
	}
	a.events[i] = moved
	return first
}
