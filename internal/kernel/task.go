package kernel

import (
	"github.com/fencepost/fencepost/simulations/history"
)

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
		u.query()
	case u.overruns && u.w.flip():
		u.after(u.think(), u.try)
	default:
		u.try()
	}
}

func (u *task) query() {
	call(u.process, &u.w.store.node, patience, (*query)(u))
}

// query is the question for the row.
type query task

func (q *query) arrive(answer func(row)) { answer(q.w.store.rows[q.resource]) }

func (q *query) hear(seen row) {
	q.seen = seen
	q.after((*task)(q).think(), func() { q.w.laws.look((*task)(q)) })
}

func (q *query) miss() { (*task)(q).end(history.Failed) }

// look leaves off where the lease has ended. Some never look; and nobody sees what
// comes between the look and the write.
func (u *task) look() {
	if u.lost && u.w.flip() {
		u.end(history.Failed)
		return
	}
	u.try()
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
