package dst

import (
	"errors"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/schedule"
	"github.com/fencepost/fencepost/token"
)

// acquisition is a hold that acquires its resource. In the record it is one op,
// however many requests it sends.
type acquisition struct {
	*hold
	op          op
	ends        time.Duration // when it gives up, by its own clock
	pause       time.Duration
	stamp       moment // when the last request was sent that the lock has received
	extraGrants []op   // its other grants: at most one of its numbers reaches the holder
	done        bool
}

func (h *hold) acquire() {
	a := &acquisition{hold: h, op: h.begin(history.Acquire), ends: h.clock() + 5*ttl, pause: schedule.FirstPause}
	a.ask()
}

func (a *acquisition) ask() {
	if a.done {
		return
	}
	if a.clock() > a.ends {
		a.abandon()
		return
	}
	p := &acquireCall{a, a.server(), a.moment()}
	call(a.process, &p.to.node, replyTimeout+a.w.upTo(ttl), p)
}

// addGrant records a further grant to the same acquisition.
func (a *acquisition) addGrant(asked history.Op) *history.Op {
	o := a.begin(history.Acquire)
	a.extraGrants = append(a.extraGrants, o)
	entry := a.w.end(o, history.Unknown)
	if entry.Began = asked.Began; asked.Outcome != "" { // the holder has given up
		entry.Ended = asked.Ended
	}
	return entry
}

// keepGrant records which of the granted numbers reached the holder, and swaps it with
// the number recorded first.
func (a *acquisition) keepGrant(number int64) {
	entry := a.w.at(a.op)
	for _, o := range a.extraGrants {
		if other := a.w.at(o); other.Number == number {
			other.Number, entry.Number = entry.Number, number
			return
		}
	}
}

// onGrant handles an answer, or a grant from the queue. The lease counts from the request
// that was answered. For a grant from the queue it counts from the last request that the
// lock had received, which the grant names.
func (a *acquisition) onGrant(g granted, sent moment) {
	if a.done {
		a.w.decisions.late(a, g)
		return
	}
	if g.err == nil {
		a.done = true
		a.tok = g.grant.Token
		a.keepGrant(a.tok.Number)
		a.lease(a.op, sent)
		return
	}
	held, ok := errors.AsType[*token.HeldError](g.err)
	if !ok {
		a.abandon()
		return
	}
	pause := a.pause/2 + a.w.upTo(a.pause)
	if a.w.isLine {
		pause = ttl / 3 // the queue will grant
	}
	a.pause = min(2*a.pause, schedule.LongestPause)
	a.after(schedule.Pause(held.Remaining, pause), a.ask)
}

// abandon releases what may have been granted, and ends the acquisition.
func (a *acquisition) abandon() {
	a.done = true
	a.w.end(a.op, history.Unknown)
	s, r := a.server(), a.resource
	notify(a.process, &s.node, func() {
		s.leave(r, a.holder)
		_ = s.w.decisions.release(s.locks[r], a.holder, s.clock())
		s.serve(r)
	})
	a.round()
}

// acquireCall is one request of an acquisition.
type acquireCall struct {
	*acquisition
	to   *server
	sent moment
}

func (p *acquireCall) onRequest(answer func(granted)) {
	if p.sent.at > p.stamp.at {
		p.stamp = p.sent
	}
	p.to.grant(p.acquisition, answer)
}

func (p *acquireCall) onReply(g granted) { p.onGrant(g, p.sent) }

// onTimeout sends the request again as the same holder, which returns a grant whose reply
// was lost.
func (p *acquireCall) onTimeout() { p.after(ttl/20, p.ask) }

// claim raises the mark before the work reads. If the claim is refused and the lock
// had forgotten, the holder acquires again. If there is no answer, it releases.
func (h *hold) claim() {
	h.ask(&request{resource: h.resource, tok: h.tok}, &claim{h, h.begin(history.Claim)})
}

type claim struct {
	*hold
	op op
}

func (c *claim) onReply(r reply) {
	c.w.end(c.op, outcome(r.err))
	stale, refused := errors.AsType[*guard.StaleError](r.err)
	switch {
	case refused:
		c.tryRecovery(stale, c.again)
	case r.err != nil || c.lost:
		c.leave()
	default:
		c.work()
	}
}

func (c *claim) onTimeout() {
	c.w.end(c.op, history.Unknown)
	c.leave()
}

// again acquires under another number if the lock was recovered.
func (h *hold) again(recovered bool) {
	if !recovered || h.recoveries == schedule.MaxReacquisitions || h.isOver {
		h.leave()
		return
	}
	h.isOver = true
	h.w.end(h.begin(history.Release), history.Unknown)
	s, r := h.server(), h.resource
	notify(h.process, &s.node, func() {
		_ = h.w.decisions.release(s.locks[r], h.holder, s.clock())
		s.serve(r)
	})
	h.process.hold(r, h.recoveries+1)
}

// tryRecovery raises the lock above the mark that has refused h, if the lock may have
// forgotten its numbers.
func (h *hold) tryRecovery(stale *guard.StaleError, then func(recovered bool)) {
	number, mark := h.tok.Number, stale.Mark.Number
	if !h.w.decisions.mayHaveForgotten(number, mark, h.lost) {
		then(false)
		return
	}
	r := &recoverCall{h, h.server(), number, mark, then}
	call(h.process, &r.to.node, ttl, r)
}

// recoverCall is the request to raise the lock above a mark.
type recoverCall struct {
	*hold
	to           *server
	number, mark int64
	then         func(recovered bool)
}

func (r *recoverCall) onRequest(answer func(error)) {
	answer(r.w.decisions.recoverLock(r.to.locks[r.resource], r.mark, r.to.clock()))
}

func (r *recoverCall) onReply(err error) {
	loss := isLoss(err)
	r.then((err == nil || loss) && schedule.Recovered(r.number, r.mark, loss))
}

func (r *recoverCall) onTimeout() { r.then(false) }
