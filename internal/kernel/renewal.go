package kernel

import (
	"errors"
	"time"

	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
)

func (h *hold) renew(bound time.Duration) {
	r := &renewal{h, h.begin(history.Renew), h.server(), h.moment()}
	call(h.process, &r.to.node, bound, r)
}

// renewal is the question for one.
type renewal struct {
	*hold
	op   op
	to   *server
	sent moment
}

func (r *renewal) arrive(answer func(error)) {
	_, err := r.w.laws.renew(r.to.locks[r.resource], r.holder, ttl, r.to.clock())
	r.to.serve(r.resource)
	answer(err)
}

func (r *renewal) hear(err error) {
	until := r.w.laws.until(r.sent.at, r.clock())
	if entry := r.w.end(r.op, outcome(err)); err == nil {
		entry.Until = r.sent.shown(until)
	}
	r.answered(err, until)
}

func (r *renewal) miss() {
	r.w.end(r.op, history.Unknown)
	r.answered(errUnheard, 0)
}

// answered is told what became of a renewal. A lease that has ended stays so.
func (h *hold) answered(err error, until time.Duration) {
	switch {
	case h.lost || h.isOver:
		return
	case isLoss(err):
		h.lost = true
		return
	case err != nil || until <= h.clock():
		h.span.Fail(h.clock(), ttl)
	default:
		h.span.Wind(h.clock(), until, margin)
	}
	h.set()
}

var errUnheard = errors.New("kernel: no answer")

func isLoss(err error) bool { return errors.Is(err, token.ErrLost) }
