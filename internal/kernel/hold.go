package kernel

import (
	"cmp"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/tenure"
	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/seal"
)

// hold is one acquisition of a process, from the question to the release.
type hold struct {
	*process
	resource int
	holder   string
	tok      token.Token
	span     tenure.Span
	alarm    int  // the last one that was set
	lost     bool // its context has ended
	isOver   bool
	overruns bool // its work takes longer than its lease may last
	isDone   bool // something was
	healings int
	tasks    int         // to go
	seal     seal.Sealed // of tok, once it was asked for
}

// round begins the next acquisition, after a while.
func (p *process) round() { p.rest(ttl / 4) }

func (p *process) rest(d time.Duration) {
	p.after(p.w.upTo(d), func() {
		if p.rounds > 0 && p.w.now < horizon {
			p.hold(p.w.draw.IntN(len(p.w.names)), 0)
		}
	})
}

// hold takes a resource. It is called again, under another name, where a claim
// has healed the lock.
func (p *process) hold(resource, healings int) {
	h := &hold{process: p, resource: resource, holder: p.holder(), healings: healings, tasks: 1 + p.w.draw.IntN(3)}
	h.acquire()
}

func (h *hold) server() *server { return &h.w.lock.servers[h.at] }

// begin puts down what h asks for now, under its token.
func (h *hold) begin(kind history.Kind) op {
	o := h.w.begin(kind, h.name, h.resource)
	entry := h.w.at(o)
	entry.Number, entry.Holder = h.tok.Number, cmp.Or(h.tok.Holder, h.holder)
	return o
}

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

// think is how long work takes.
func (h *hold) think() time.Duration {
	if h.overruns {
		return h.w.upTo(2 * ttl)
	}
	return h.w.work()
}

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
