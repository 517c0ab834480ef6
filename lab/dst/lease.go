package dst

import (
	"cmp"
	"errors"
	"time"

	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/schedule"
	"github.com/fencepost/fencepost/token"
)

// hold is one acquisition of a process, from the first request to the release.
type hold struct {
	*process
	resource   int
	holder     string
	tok        token.Token
	span       schedule.Lease
	alarm      int  // the last one that was set
	lost       bool // its context has ended
	isOver     bool
	overruns   bool // its work takes longer than its lease may last
	isDone     bool // a unit was applied
	recoveries int
	tasks      int              // left to do
	signed     signature.Signed // of tok, after it was first needed
}

// round begins the next acquisition after a pause.
func (p *process) round() { p.rest(ttl / 4) }

func (p *process) rest(d time.Duration) {
	p.after(p.w.upTo(d), func() {
		if p.rounds > 0 && p.w.now < horizon {
			p.hold(p.w.draw.IntN(len(p.w.names)), 0)
		}
	})
}

// hold acquires a resource. After a claim has recovered the lock, hold is called again
// with another holder.
func (p *process) hold(resource, recoveries int) {
	h := &hold{process: p, resource: resource, holder: p.holder(), recoveries: recoveries, tasks: 1 + p.w.draw.IntN(3)}
	h.acquire()
}

func (h *hold) server() *server { return &h.w.lock.servers[h.at] }

// begin records the start of an op of h, under its token.
func (h *hold) begin(kind history.Kind) op {
	o := h.w.begin(kind, h.name, h.resource)
	entry := h.w.at(o)
	entry.Number, entry.Holder = h.tok.Number, cmp.Or(h.tok.Holder, h.holder)
	return o
}

// think returns how long the work takes.
func (h *hold) think() time.Duration {
	if h.overruns {
		return h.w.upTo(2 * ttl)
	}
	return h.w.work()
}

// lease starts the lease of a grant whose request was sent then. It is renewed from
// before the claim on.
func (h *hold) lease(o op, sent moment) {
	until := h.w.decisions.until(sent.at, h.clock())
	h.w.end(o, history.Accepted).Until = sent.shown(until)
	if schedule.TooLate(until-h.clock(), margin) {
		h.lost = true
		h.leave()
		return
	}
	h.span.Stop = h.atMost()
	h.span.Extend(h.clock(), until, margin)
	h.set()
	h.w.decisions.claim(h)
}

// atMost returns when the lease ends although it could be renewed.
func (h *hold) atMost() time.Duration {
	if !h.w.hit(Overrun, 30) {
		return schedule.Never
	}
	h.overruns = true
	d := h.w.upTo(ttl / 2)
	entry := h.w.note(history.Fault, h.name, h.resource)
	entry.Note, entry.Ended = "holds for too long", h.w.now+d+ttl
	return h.clock() + d
}

// set sets the alarm to the next action of the lease.
func (h *hold) set() {
	h.alarm++
	alarm := h.alarm
	h.after(h.span.Next-h.clock(), func() {
		if h.alarm == alarm && !h.isOver && !h.lost {
			h.onAlarm()
		}
	})
}

func (h *hold) onAlarm() {
	now := h.clock()
	switch {
	case h.span.End() <= now:
		h.lost = true
		return
	case h.span.Due(now, ttl):
		bound := h.span.RenewalTimeout(now, ttl)
		h.span.RenewalSent()
		h.renew(bound)
	}
	h.set()
}

func (h *hold) renew(bound time.Duration) {
	r := &renewal{h, h.begin(history.Renew), h.server(), h.moment()}
	call(h.process, &r.to.node, bound, r)
}

// renewal is the request for a renewal.
type renewal struct {
	*hold
	op   op
	to   *server
	sent moment
}

func (r *renewal) onRequest(answer func(error)) {
	_, err := r.w.decisions.renew(r.to.locks[r.resource], r.holder, ttl, r.to.clock())
	r.to.serve(r.resource)
	answer(err)
}

func (r *renewal) onReply(err error) {
	until := r.w.decisions.until(r.sent.at, r.clock())
	if entry := r.w.end(r.op, outcome(err)); err == nil {
		entry.Until = r.sent.shown(until)
	}
	r.answered(err, until)
}

func (r *renewal) onTimeout() {
	r.w.end(r.op, history.Unknown)
	r.answered(errNoReply, 0)
}

// answered records the result of a renewal. A lease that has ended stays ended.
func (h *hold) answered(err error, until time.Duration) {
	switch {
	case h.lost || h.isOver:
		return
	case isLoss(err):
		h.lost = true
		return
	case err != nil || until <= h.clock():
		h.span.RenewalFailed(h.clock(), ttl)
	default:
		h.span.Extend(h.clock(), until, margin)
	}
	h.set()
}

var errNoReply = errors.New("dst: no answer")

func isLoss(err error) bool { return errors.Is(err, token.ErrLost) }

// leave releases the resource.
func (h *hold) leave() {
	if h.isOver {
		return
	}
	h.isOver = true
	rest := ttl / 4
	if h.isDone {
		h.rounds--
	} else {
		rest = 3 * ttl / 4 // and no longer: the rule liveness does not count a holder that has not tried for a ttl
	}
	r := &release{h, h.begin(history.Release), h.server(), rest}
	call(h.process, &r.to.node, ttl, r)
}

// release is the request for a release. The process pauses after it.
type release struct {
	*hold
	op   op
	to   *server
	then time.Duration
}

func (r *release) onRequest(answer func(error)) {
	err := r.w.decisions.release(r.to.locks[r.resource], r.holder, r.to.clock())
	r.to.serve(r.resource)
	answer(err)
}

func (r *release) onReply(err error) {
	r.w.end(r.op, outcome(err))
	r.rest(r.then)
}

func (r *release) onTimeout() {
	r.w.end(r.op, history.Unknown)
	r.rest(r.then)
}
