package kernel

import (
	"errors"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/tenure"
	"github.com/fencepost/fencepost/simulations/history"
)

// claim raises the mark before the work reads. Where it is refused by a lock
// that has forgotten, the resource is taken again; where nothing is known, it is
// given back.
func (h *hold) claim() {
	o := h.begin(history.Claim)
	h.ask(&request{resource: h.resource, tok: h.tok}, func(r reply) {
		h.w.end(o, outcome(r.err))
		var stale *guard.StaleError
		switch {
		case errors.As(r.err, &stale):
			h.heal(stale, h.again)
		case r.err != nil || h.lost:
			h.leave()
		default:
			h.work()
		}
	}, func() {
		h.w.end(o, history.Unknown)
		h.leave()
	})
}

// again acquires under another number, where the lock was healed.
func (h *hold) again(healed bool) {
	if !healed || h.healings == tenure.HealAtMost || h.isOver {
		h.leave()
		return
	}
	h.isOver = true
	h.w.end(h.begin(history.Release), history.Unknown)
	s, r := h.server(), h.resource
	tell(h.process, &s.node, func() {
		_ = h.w.laws.release(s.locks[r], h.holder, s.clock())
		s.serve(r)
	})
	h.process.hold(r, h.healings+1)
}

// ask puts a question to the store, or to the service, through its proxy.
func (h *hold) ask(q *request, answered func(reply), lost func()) {
	if h.w.service != nil {
		h.w.service.ask(h, q, answered, lost)
		return
	}
	s := h.w.store
	call(h.process, &s.node, patience, func(answer func(reply)) {
		if q.task != nil {
			h.w.laws.write(s, q, answer)
			return
		}
		answer(reply{err: h.w.laws.admit(s, q.resource, q.tok)})
	}, answered, lost)
}
