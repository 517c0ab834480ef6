package kernel

import (
	"cmp"
	"time"

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

// think is how long work takes.
func (h *hold) think() time.Duration {
	if h.overruns {
		return h.w.upTo(2 * ttl)
	}
	return h.w.work()
}
