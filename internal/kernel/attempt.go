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
