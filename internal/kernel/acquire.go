package kernel

import (
	"errors"
	"time"

	"github.com/fencepost/fencepost/internal/tenure"
	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
)

// wish is h asking for its resource: one question in the record, however often
// it is put.
type wish struct {
	*hold
	op    op
	ends  time.Duration // how long it is patient, by its own clock
	pause time.Duration
	stamp moment // when the last question was sent that the lock has seen
	burnt []op   // what else was granted to it: at most one of its numbers will be heard of
	done  bool
}

func (h *hold) acquire() {
	a := &wish{hold: h, op: h.begin(history.Acquire), ends: h.clock() + 5*ttl, pause: tenure.FirstPause}
	a.ask()
}

func (a *wish) ask() {
	if a.done {
		return
	}
	if a.clock() > a.ends {
		a.abandon()
		return
	}
	p := &plea{a, a.server(), a.moment()}
	call(a.process, &p.to.node, patience+a.w.upTo(ttl), p)
}

// burn begins the entry of another number.
func (a *wish) burn(asked history.Op) *history.Op {
	o := a.begin(history.Acquire)
	a.burnt = append(a.burnt, o)
	entry := a.w.end(o, history.Unknown)
	if entry.Began = asked.Began; asked.Outcome != "" { // it is not asking any more
		entry.Ended = asked.Ended
	}
	return entry
}

// heard puts down which of its numbers it was told. The one that stood there is
// burnt.
func (a *wish) heard(number int64) {
	entry := a.w.at(a.op)
	for _, o := range a.burnt {
		if other := a.w.at(o); other.Number == number {
			other.Number, entry.Number = entry.Number, number
			return
		}
	}
}

// told is what a does with an answer. Its lease counts from when it sent the
// question, or where it was called from the line, from the last one that the lock
// had seen by then, which it names.
func (a *wish) told(g granted, sent moment) {
	if a.done {
		a.w.laws.late(a, g)
		return
	}
	if g.err == nil {
		a.done = true
		a.tok = g.grant.Token
		a.heard(a.tok.Number)
		a.lease(a.op, sent)
		return
	}
	held, ok := errors.AsType[*token.HeldError](g.err)
	if !ok {
		a.abandon()
		return
	}
	pause := a.pause/2 + a.w.upTo(a.pause)
	if a.w.isLine {
		pause = ttl / 3 // it will be called
	}
	a.pause = min(2*a.pause, tenure.LongestPause)
	a.after(tenure.Pause(held.Remaining, pause), a.ask)
}

// abandon gives back what may have been granted, and goes.
func (a *wish) abandon() {
	a.done = true
	a.w.end(a.op, history.Unknown)
	s, r := a.server(), a.resource
	tell(a.process, &s.node, func() {
		s.leave(r, a.holder)
		_ = s.w.laws.release(s.locks[r], a.holder, s.clock())
		s.serve(r)
	})
	a.round()
}
