package kernel

import (
	"time"

	"github.com/fencepost/fencepost/simulations/history"
)

// leave gives the resource back.
func (h *hold) leave() {
	if h.isOver {
		return
	}
	h.isOver = true
	rest := ttl / 4
	if h.isDone {
		h.rounds--
	} else {
		rest = 3 * ttl / 4 // and no longer: who does not try for a ttl is not kept waiting
	}
	r := &release{h, h.begin(history.Release), h.server(), rest}
	call(h.process, &r.to.node, ttl, r)
}

// release gives the lock back, and rests.
type release struct {
	*hold
	op   op
	to   *server
	then time.Duration
}

func (r *release) arrive(answer func(error)) {
	err := r.w.laws.release(r.to.locks[r.resource], r.holder, r.to.clock())
	r.to.serve(r.resource)
	answer(err)
}

func (r *release) hear(err error) {
	r.w.end(r.op, outcome(err))
	r.rest(r.then)
}

func (r *release) miss() {
	r.w.end(r.op, history.Unknown)
	r.rest(r.then)
}
