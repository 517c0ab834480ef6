package kernel

import (
	"time"

	"github.com/fencepost/fencepost/internal/tenure"
	"github.com/fencepost/fencepost/simulations/history"
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
