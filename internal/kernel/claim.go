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
	h.ask(&request{resource: h.resource, tok: h.tok}, &claim{h, h.begin(history.Claim)})
}

type claim struct {
	*hold
	op op
}

func (c *claim) hear(r reply) {
	c.w.end(c.op, outcome(r.err))
	stale, refused := errors.AsType[*guard.StaleError](r.err)
	switch {
	case refused:
		c.heal(stale, c.again)
	case r.err != nil || c.lost:
		c.leave()
	default:
		c.work()
	}
}

func (c *claim) miss() {
	c.w.end(c.op, history.Unknown)
	c.leave()
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
