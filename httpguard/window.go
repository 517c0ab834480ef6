package httpguard

import (
	"hash/maphash"
	"sync"

	"github.com/fencepost/fencepost/internal/window"
)

// Window keeps two tokens of one resource from being at work at the same time,
// inside one process. A check before the handler runs is only a check; the
// window is what makes it hold until the handler has returned:
//
//   - Requests under one token run in parallel, also one that the handler of
//     another sends to its own service.
//   - A newer token cancels the contexts of the older requests on its resource,
//     with a [*guard.DismissedError] as the cause, and waits until the last of
//     them has left its handler. Their reads of the body end at once, and
//     their writes of the answer a while later, so that a client that sleeps
//     in the middle of a request keeps nobody waiting.
//   - An older token that arrives while a newer one waits or works is stale.
//   - Equal numbers of different holders take turns; the store decides.
//
// It knows nothing of a resource that nobody is at work on, and so decides
// nothing that a store decides: which token was the highest last week.
//
// The zero value is ready, it must not be copied, and it is safe for concurrent
// use. All middlewares that name one to be theirs share it.
type Window struct {
	rooms [rooms]room
}

// rooms keep requests for different resources out of each other's way.
const rooms = 256

// room has the gates of some of the resources, which are few: those with a
// request in flight. So it is a list, and has one gate to use again: a resource
// that is asked for now and then costs no allocation each time.
type room struct {
	mu    sync.Mutex
	gates *gate
	spare *gate
	_     [40]byte // two rooms in one cache line would still be in the way
}

var (
	// process is the window of middlewares without one of their own. There each
	// meets only those with the same owner: two services of one process, as in
	// tests, may have resources of one name.
	process Window
	seed    = maphash.MakeSeed()
)

// enter takes p to its resource's gate. It returns the older requests that must
// be told to go, and whether p has to wait until they are gone: p.called is
// closed then. The error is a refusal, and p is at no gate.
func (w *Window) enter(p *place) (older []*window.Place, waits bool, err error) {
	r := &w.rooms[maphash.String(seed, p.sealed.Token.Resource)%rooms]
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.find(p)
	if g == nil {
		g = r.open(p)
	}
	p.Token, p.Visitor = &p.sealed.Token, p
	if older, waits, err = g.Enter(&p.Place); err != nil {
		return nil, false, err
	}
	p.room, p.gate = r, g
	if waits {
		p.called = make(chan struct{})
	}
	return older, waits, nil
}

func (r *room) find(p *place) *gate {
	g := r.gates
	for g != nil && (g.resource != p.sealed.Token.Resource || g.owner != p.visit.owner) {
		g = g.next
	}
	return g
}

func (r *room) open(p *place) *gate {
	g := r.spare
	if g == nil {
		g = new(gate)
	}
	g.resource, g.owner, g.next = p.sealed.Token.Resource, p.visit.owner, r.gates
	r.gates, r.spare = g, nil
	return g
}

func (r *room) shut(g *gate) {
	at := &r.gates
	for *at != g {
		at = &(*at).next
	}
	*at = g.next
	*g = gate{}
	r.spare = g
}

// leave takes p from its gate, and the gate away after the last one. It does
// nothing for a place that is at no gate.
func (p *place) leave() {
	if p.room == nil {
		return
	}
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	g := p.gate
	if g == nil {
		return
	}
	p.gate = nil
	g.Leave(&p.Place)
	if g.IsEmpty() {
		p.room.shut(g)
	}
}

// entered reports whether p is inside.
func (p *place) entered() bool {
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	return p.Inside
}
