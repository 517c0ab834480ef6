package dst

import (
	"errors"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/history"
)

// task is one unit of a holder's work: it reads, thinks, and writes. It repeats an
// unanswered write.
type task struct {
	*hold
	unit   int
	op     op
	seen   row
	tries  int
	unsure bool // an attempt may have been applied
}

const tries = 3

// work does the next unit, or releases.
func (h *hold) work() {
	if h.tasks--; h.tasks < 0 {
		h.leave()
		return
	}
	o := h.begin(history.Unit)
	u := &task{hold: h, unit: len(h.w.units), op: o}
	h.w.units = append(h.w.units, unit{op: o, resource: h.resource})
	h.w.decisions.read(u)
}

// read reads, if the holder reads by itself, and thinks.
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
	call(u.process, &u.w.store.node, replyTimeout, (*query)(u))
}

// query is the request for the row.
type query task

func (q *query) onRequest(answer func(row)) { answer(q.w.store.rows[q.resource]) }

func (q *query) onReply(seen row) {
	q.seen = seen
	q.after((*task)(q).think(), func() { q.w.decisions.look((*task)(q)) })
}

func (q *query) onTimeout() { (*task)(q).end(history.Failed) }

// look checks whether the lease has ended. Some holders never check. No check covers the
// time between the check and the write.
func (u *task) look() {
	if u.lost && u.w.flip() {
		u.end(history.Failed)
		return
	}
	u.try()
}

// finish records the outcome of the unit. If an attempt was not answered, the outcome is
// unknown, whatever the outcomes of the other attempts.
func (u *task) finish(outcome history.Outcome) {
	if u.unsure {
		outcome = history.Unknown
	}
	u.w.end(u.op, outcome)
}

// end finishes the unit and the hold: under the same token, a late copy of an unknown
// write could arrive between the next unit's read and write.
func (u *task) end(outcome history.Outcome) {
	u.finish(outcome)
	u.leave()
}

// try writes.
func (u *task) try() {
	u.tries++
	o := u.begin(history.Write)
	u.ask(&request{resource: u.resource, tok: u.tok, task: u, write: o, seen: u.seen}, &attempt{u, o})
}

// attempt is one attempt of a task's write.
type attempt struct {
	*task
	op op
}

func (a *attempt) onReply(r reply) {
	if r.err == nil {
		a.applied(a.op, r)
		a.after(a.think(), a.work)
		return
	}
	if stale, ok := errors.AsType[*guard.StaleError](r.err); ok {
		a.w.end(a.op, history.Refused)
		a.w.decisions.refused(a.task, stale)
		return
	}
	a.w.end(a.op, history.Failed)
	a.end(history.Failed)
}

func (a *attempt) onTimeout() {
	a.w.end(a.op, history.Unknown)
	a.w.decisions.noReply(a.task)
}

// applied records that a write was applied, and when. If another attempt has applied the
// unit, this attempt has written nothing.
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

// refused checks whether the lock has forgotten its numbers. It does not run the refused
// unit again.
func (u *task) refused(stale *guard.StaleError) {
	u.finish(history.Refused)
	u.tryRecovery(stale, func(bool) { u.leave() })
}

// noReply repeats the write. After the last attempt, the outcome is unknown.
func (u *task) noReply() {
	u.unsure = true
	if u.tries < tries {
		u.after(u.think(), u.try)
		return
	}
	u.end(history.Unknown)
}

// unit is a unit of work in the store.
type unit struct {
	applied    int
	seen, made int64 // versions, at the first application
	writes     []op  // the attempts that were applied
	resource   int
	op         op
}

func (u *unit) reply() reply { return reply{seen: u.seen, made: u.made, by: u.writes[0]} }
