package kernel

import "time"

// event is something that happens at a time. Of two at the same time the one
// that was put down first comes first.
type event struct {
	at   time.Duration
	deed deed
	// who does it, if that life of it lasts as long; nil: the world. due is when,
	// on its own clock.
	who  actor
	life int
	due  time.Duration
}

// deed is something to do.
type deed interface{ do() }

// step is a deed without a name.
type step func()

func (s step) do() { s() }

// actor is who may have died, or be asleep, when something is to be done.
type actor interface {
	act(e *event)
}

// happen does it.
func (e *event) happen() {
	if e.who == nil {
		e.deed.do()
		return
	}
	e.who.act(e)
}
