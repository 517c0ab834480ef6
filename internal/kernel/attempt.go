package kernel

import (
	"errors"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations/history"
)

// try writes.
func (u *task) try() {
	u.tries++
	o := u.begin(history.Write)
	u.ask(&request{resource: u.resource, tok: u.tok, task: u, write: o, seen: u.seen}, &attempt{u, o})
}

// attempt is one of a task's tries.
type attempt struct {
	*task
	op op
}

func (a *attempt) hear(r reply) {
	if r.err == nil {
		a.applied(a.op, r)
		a.after(a.think(), a.work)
		return
	}
	if stale, ok := errors.AsType[*guard.StaleError](r.err); ok {
		a.w.end(a.op, history.Refused)
		a.w.laws.refused(a.task, stale)
		return
	}
	a.w.end(a.op, history.Failed)
	a.end(history.Failed)
}

func (a *attempt) miss() {
	a.w.end(a.op, history.Unknown)
	a.w.laws.unheard(a.task)
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
