package httpguard

import "github.com/fencepost/fencepost/token/seal"

// gate is where the requests on one resource meet. It is guarded by its room's
// mutex, and has no allocation of its own beside it.
type gate struct {
	resource string
	owner    any
	next     *gate // in the room

	top     int64 // the highest number that has come since the gate is open
	inside  queue // those at work
	waiting queue // those of the top number that wait for others to leave
}

// place is one request at one gate.
type place struct {
	sealed *seal.Sealed // the visit's own, with the token
	visit  *visit
	room   *room
	gate   *gate         // nil: at none
	called chan struct{} // closed when waiting has ended, one way or the other
	inside bool
	next   *place // in the gate's queue
	prev   *place
}

// arrive puts p, which is not below the top, in one of the queues.
func (g *gate) arrive(p *place) (older []*place, waits bool) {
	if p.sealed.Token.Number > g.top {
		g.top = p.sealed.Token.Number
		g.dismiss()
		for o := g.inside.first; o != nil; o = o.next {
			older = append(older, o)
		}
	}
	if g.admits(p) {
		p.inside = true
		g.inside.push(p)
		return older, false
	}
	p.called = make(chan struct{})
	g.waiting.push(p)
	return older, true
}

// admits asks whether all that are inside have p's token. Where the first has
// it they all have: nobody else was let in beside it.
func (g *gate) admits(p *place) bool {
	first := g.inside.first
	return first == nil || first.sealed.Token == p.sealed.Token
}

// dismiss calls those who wait under a number that is no longer the top. They
// find that they are not inside.
func (g *gate) dismiss() {
	for p := g.waiting.first; p != nil; p = g.waiting.first {
		g.waiting.remove(p)
		p.gate = nil
		close(p.called)
	}
}

// depart takes p out, whichever queue it is in, and lets in whom it kept out.
func (g *gate) depart(p *place) {
	if !p.inside {
		g.waiting.remove(p)
		return
	}
	g.inside.remove(p)
	p.inside = false
	var next *place
	for w := g.waiting.first; w != nil; w = next {
		next = w.next
		if g.admits(w) {
			g.waiting.remove(w)
			w.inside = true
			g.inside.push(w)
			close(w.called)
		}
	}
}

func (g *gate) empty() bool { return g.inside.first == nil && g.waiting.first == nil }

// queue is a list whose links are in the places themselves.
type queue struct{ first, last *place }

func (q *queue) push(p *place) {
	p.prev, p.next = q.last, nil
	if q.last == nil {
		q.first = p
	} else {
		q.last.next = p
	}
	q.last = p
}

func (q *queue) remove(p *place) {
	if p.prev == nil {
		q.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		q.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.prev, p.next = nil, nil
}
