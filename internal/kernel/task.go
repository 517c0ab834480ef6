package kernel

import (
	"errors"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations/history"
)

// unit is a unit of work as the store remembers it.
type unit struct {
	applied    int
	seen, made int64 // versions, of the first time
	writes     []op  // the attempts that were applied
	resource   int
	op         op
}

func (u *unit) reply() reply { return reply{seen: u.seen, made: u.made, by: u.writes[0]} }

// task is a holder doing a unit of work: it reads, thinks, and writes, again if
// it hears nothing.
type task struct {
	*hold
	unit   int
	op     op
	seen   row
	tries  int
	unsure bool // an attempt may have been applied
}

const tries = 3

// work does the next unit, or is done.
func (h *hold) work() {
	if h.tasks--; h.tasks < 0 {
		h.leave()
		return
	}
	o := h.begin(history.Unit)
	u := &task{hold: h, unit: len(h.w.units), op: o}
	h.w.units = append(h.w.units, unit{op: o, resource: h.resource})
	h.w.laws.read(u)
}

// read reads, where the holder does that itself, and thinks.
func (u *task) read() {
	switch {
	case u.w.service == nil:
	case u.overruns && u.w.flip():
		u.after(u.think(), u.try)
		return
	default:
		u.try()
		return
	}
	s := u.w.store
	call(u.process, &s.node, patience, func(answer func(row)) { answer(s.rows[u.resource]) }, func(seen row) {
		u.seen = seen
		u.after(u.think(), func() { u.w.laws.look(u) })
	}, func() { u.end(history.Failed) })
}

// look leaves off where the lease has ended. Some never look; and nobody sees what
// comes between the look and the write.
func (u *task) look() {
	if u.lost && u.w.flip() {
		u.end(history.Failed)
		return
	}
	u.try()
}

// try writes.
func (u *task) try() {
	u.tries++
	o := u.begin(history.Write)
	u.ask(&request{resource: u.resource, tok: u.tok, task: u, write: o, seen: u.seen}, func(r reply) {
		u.answered(o, r)
	}, func() {
		u.w.end(o, history.Unknown)
		u.w.laws.unheard(u)
	})
}

func (u *task) answered(o op, r reply) {
	var stale *guard.StaleError
	switch {
	case r.err == nil:
		u.applied(o, r)
		u.after(u.think(), u.work)
	case errors.As(r.err, &stale):
		u.w.end(o, history.Refused)
		u.w.laws.refused(u, stale)
	default:
		u.w.end(o, history.Failed)
		u.end(history.Failed)
	}
}

// applied puts down a write that was, and when: one that finds its unit applied by
// another attempt has written nothing itself.
func (u *task) applied(o op, r reply) {
	u.w.end(u.op, history.Accepted)
	u.isDone = true
	if r.by != o {
		u.w.end(o, history.Failed)
		return
	}
	entry := u.w.end(o, history.Accepted)
	entry.Seen, entry.Made = r.seen, r.made
}

// refused asks the lock whether it has forgotten. What was refused is not run
// again.
func (u *task) refused(stale *guard.StaleError) {
	u.finish(history.Refused)
	u.heal(stale, func(bool) { u.leave() })
}

// unheard tries the same unit again; in the end nobody knows.
func (u *task) unheard() {
	u.unsure = true
	if u.tries < tries {
		u.after(u.think(), u.try)
		return
	}
	u.end(history.Unknown)
}

// finish puts down what became of the unit. An attempt without an answer makes it
// unknown, whatever became of the others.
func (u *task) finish(outcome history.Outcome) {
	if u.unsure {
		outcome = history.Unknown
	}
	u.w.end(u.op, outcome)
}

// end finishes it, and the hold: a late copy of an unknown write could still
// come between the next one's read and write, under the same token.
func (u *task) end(outcome history.Outcome) {
	u.finish(outcome)
	u.leave()
}
