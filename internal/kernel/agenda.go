package kernel

import "time"

// event is something that happens at a time. Of two at the same time the one
// that was put down first comes first.
type event struct {
	at    time.Duration
	order uint64
	do    func()
}

func (e *event) before(other *event) bool {
	return e.at < other.at || e.at == other.at && e.order < other.order
}

// agenda is a heap of what is to happen. container/heap would put each event on
// Go's heap too.
type agenda struct {
	events []event
	count  uint64
}

func (a *agenda) push(at time.Duration, do func()) {
	a.count++
	a.events = append(a.events, event{at, a.count, do})
	for i := len(a.events) - 1; i > 0; {
		parent := (i - 1) / 2
		if !a.events[i].before(&a.events[parent]) {
			return
		}
		a.events[i], a.events[parent] = a.events[parent], a.events[i]
		i = parent
	}
}

// pop returns the next event. There must be one.
func (a *agenda) pop() event {
	first, last := a.events[0], len(a.events)-1
	a.events[0], a.events[last] = a.events[last], event{}
	a.events = a.events[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if a.events[child].before(&a.events[least]) {
				least = child
			}
		}
		if least == i {
			return first
		}
		a.events[i], a.events[least] = a.events[least], a.events[i]
		i = least
	}
}
