package window

import (
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// Gate is where the requests on one resource meet. The zero Gate is one at which
// nobody has been.
type Gate struct {
	top     int64 // the highest number that has come since the gate is open
	inside  queue // those at work
	waiting queue // those of the top number that wait for others to leave
}

// Visitor is who has a place.
type Visitor interface {
	// Called says that its waiting has ended: it is inside, or, since a newer
	// token has come, at no gate any more. It must not ask the gate anything.
	Called()
}

// Place is one request at one gate. Its fields Token and Visitor must be set, and
// it must not be copied while it is at a gate.
type Place struct {
	Token   *token.Token
	Visitor Visitor
	Inside  bool

	next *Place // in the gate's queue
	prev *Place
}

// Enter takes p to the gate. It returns the older requests that must be told to
// go, and whether p has to wait until they have left. The error is a refusal, and
// p is at no gate.
func (g *Gate) Enter(p *Place) (older []*Place, waits bool, err error) {
	if p.Token.Number < g.top {
		return nil, false, &guard.StaleError{Token: *p.Token}
	}
	if p.Token.Number > g.top {
		g.top = p.Token.Number
		g.dismiss()
		for o := g.inside.first; o != nil; o = o.next {
			older = append(older, o)
		}
	}
	if g.admits(p) {
		p.Inside = true
		g.inside.push(p)
		return older, false, nil
	}
	g.waiting.push(p)
	return older, true, nil
}

// admits asks whether all that are inside have p's token. Where the first has
// it they all have: nobody else was let in beside it.
func (g *Gate) admits(p *Place) bool {
	first := g.inside.first
	return first == nil || *first.Token == *p.Token
}

// dismiss calls those who wait under a number that is no longer the top. They
// find that they are not inside.
func (g *Gate) dismiss() {
	for p := g.waiting.first; p != nil; p = g.waiting.first {
		g.waiting.remove(p)
		p.Visitor.Called()
	}
}

// Leave takes p, which is at the gate, away from it, and calls whom it kept out.
// After the last one the gate knows nothing any more: which number was the
// highest last week is for a store to know.
func (g *Gate) Leave(p *Place) {
	if p.Inside {
		g.inside.remove(p)
		p.Inside = false
		g.call()
	} else {
		g.waiting.remove(p)
	}
	if g.IsEmpty() {
		g.top = 0
	}
}

// call lets in whom nobody keeps out any more.
func (g *Gate) call() {
	var next *Place
	for w := g.waiting.first; w != nil; w = next {
		next = w.next
		if g.admits(w) {
			g.waiting.remove(w)
			w.Inside = true
			g.inside.push(w)
			w.Visitor.Called()
		}
	}
}

// IsEmpty reports whether nobody is at the gate.
func (g *Gate) IsEmpty() bool { return g.inside.first == nil && g.waiting.first == nil }

// Waiting is how many wait until others have left.
func (g *Gate) Waiting() (n int) {
	for p := g.waiting.first; p != nil; p = p.next {
		n++
	}
	return n
}
