package kernel

import (
	"errors"
	"time"

	"github.com/fencepost/fencepost/internal/tenure"
	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
)

// lease begins with a grant that was asked for then, and renews itself from
// before the claim on.
func (h *hold) lease(o op, sent moment) {
	until := h.w.laws.until(sent.at, h.clock())
	h.w.end(o, history.Accepted).Until = sent.shown(until)
	if tenure.TooLate(until-h.clock(), margin) {
		h.lost = true
		h.leave()
		return
	}
	h.span.Stop = h.atMost()
	h.span.Wind(h.clock(), until, margin)
	h.set()
	h.w.laws.claim(h)
}

// atMost is when the lease ends though it could be renewed.
func (h *hold) atMost() time.Duration {
	if !h.w.amiss(Overrun, 30) {
		return tenure.Never
	}
	h.overruns = true
	d := h.w.upTo(ttl / 2)
	entry := h.w.note(history.Fault, h.name, h.resource)
	entry.Note, entry.Ended = "holds for too long", h.w.now+d+ttl
	return h.clock() + d
}

// set sets the alarm to the next thing to do for the lease.
func (h *hold) set() {
	h.alarm++
	alarm := h.alarm
	h.after(h.span.Next-h.clock(), func() {
		if h.alarm == alarm && !h.isOver && !h.lost {
			h.turn()
		}
	})
}

func (h *hold) turn() {
	now := h.clock()
	switch {
	case h.span.End() <= now:
		h.lost = true
		return
	case h.span.Due(now, ttl):
		bound := h.span.Bound(now, ttl)
		h.span.Ask()
		h.renew(bound)
	}
	h.set()
}

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
