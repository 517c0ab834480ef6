package kernel

import (
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/tenure"
)

// heal has the lock raised past the mark that has refused h, if that is what it
// takes.
func (h *hold) heal(stale *guard.StaleError, then func(healed bool)) {
	number, mark := h.tok.Number, stale.Mark.Number
	if !h.w.laws.suspects(number, mark, h.lost) {
		then(false)
		return
	}
	r := &raising{h, h.server(), number, mark, then}
	call(h.process, &r.to.node, ttl, r)
}

// raising asks the lock to be raised past a mark.
type raising struct {
	*hold
	to           *server
	number, mark int64
	then         func(healed bool)
}

func (r *raising) arrive(answer func(error)) {
	answer(r.w.laws.raise(r.to.locks[r.resource], r.mark, r.to.clock()))
}

func (r *raising) hear(err error) {
	loss := isLoss(err)
	r.then((err == nil || loss) && tenure.Healed(r.number, r.mark, loss))
}

func (r *raising) miss() { r.then(false) }
