package redisquorum_test

import (
	"fmt"
	"math/bits"
)

// protocol is an instance of the quorum's protocol that can be searched: nodes,
// holders that acquire once each, and how often a node loses its memory. What
// stands below the gap breaks the protocol.
//
// There is no clock in it. What time is for stands in the conditions: a lock
// ends when its holder has given up, never before; and a blank node waits for
// those who had begun when it lost its memory, to have ended or renewed without
// it. Messages may take for ever and arrive in any order, which is all that a
// node is cut off by.
type protocol struct {
	nodes, holders, losses int

	clock bool // numbers may be minted by a clock that is ahead of the counters

	oneRound  bool // counts in the first round, and there is no second
	anyWriter bool // writes where the lock is another's too
	noMarker  bool // a node without memory votes on
	atOnce    bool // a blank node does not wait
	fewer     int  // and reads so many fewer of the others
}

func (p protocol) need() int { return p.nodes/2 + 1 }

const (
	idle = iota
	asking
	writing
	holding
	over
)

// place is a node of the model.
type place struct {
	counter, holder uint8 // holder is 1 and up, or 0
	blank           bool
	pending         uint8 // who may count on what it has forgotten
	read, highest   uint8 // its recovery: of whom, and what
}

// attempt is a holder of the model.
type attempt struct {
	phase, votes, highest, number, wrote uint8
}

type world struct {
	places   [5]place
	attempts [4]attempt
	last     uint8 // the greatest number in use
	losses   uint8
}

// step is what happens next, to whom.
type step struct {
	verb   string
	holder int // or -1
	node   int // or -1
	other  int // or -1
}

func (s step) String() string {
	name := func(i int, first rune) string { return string(first + rune(i)) }
	switch {
	case s.other >= 0:
		return fmt.Sprintf("%s %s %s", name(s.node, 'a'), s.verb, name(s.other, 'a'))
	case s.holder < 0:
		return fmt.Sprintf("%s %s", name(s.node, 'a'), s.verb)
	case s.node < 0:
		return fmt.Sprintf("%s %s", name(s.holder, 'A'), s.verb)
	}
	return fmt.Sprintf("%s %s %s", name(s.holder, 'A'), s.verb, name(s.node, 'a'))
}

func count(set uint8) int { return bits.OnesCount8(set) }

// steps calls visit with all that can happen in w.
func (p protocol) steps(w world, visit func(step, world)) {
	for h := range p.holders {
		p.stepsOf(w, h, visit)
	}
	for n := range p.nodes {
		if w.losses > 0 {
			visit(step{"loses its memory", -1, n, -1}, p.lose(w, n))
		}
		if at := &w.places[n]; at.blank && (at.pending == 0 || p.atOnce) {
			p.stepsOfRecovery(w, n, visit)
		}
	}
}

func (p protocol) stepsOfRecovery(w world, n int, visit func(step, world)) {
	at := &w.places[n]
	for other := range p.nodes {
		if other != n && !w.places[other].blank && at.read>>other&1 == 0 {
			visit(step{"reads the counter of", -1, n, other}, p.read(w, n, other))
		}
	}
	if count(at.read) >= p.need()-p.fewer {
		visit(step{"is a member again", -1, n, -1}, p.join(w, n))
	}
}

func (p protocol) stepsOf(w world, h int, visit func(step, world)) {
	a := &w.attempts[h]
	if a.phase == idle && h > 0 && w.attempts[h-1].phase == idle {
		return // who has not begun is like any other
	}
	for n := range p.nodes {
		p.stepsAt(w, h, n, visit)
	}
	if a.phase == asking && count(a.votes) >= p.need() {
		visit(step{"mints", h, -1, -1}, p.mint(w, h, 0))
		if p.clock {
			visit(step{"mints by the clock", h, -1, -1}, p.mint(w, h, 1))
		}
	}
	if a.phase == writing && (p.oneRound || count(a.wrote) >= p.need()) {
		visit(step{"uses its number", h, -1, -1}, p.use(w, h))
	}
	if a.phase == holding && p.renewable(w, h) {
		visit(step{"renews", h, -1, -1}, p.forget(w, h))
	}
	if a.phase != idle && a.phase != over {
		visit(step{"gives up, or its time does", h, -1, -1}, p.end(w, h))
	}
}

// stepsAt has messages arrive at any time, even when their sender is over, and
// twice.
func (p protocol) stepsAt(w world, h, n int, visit func(step, world)) {
	a, at := &w.attempts[h], &w.places[n]
	mine := at.holder == uint8(h+1)
	if !at.blank && at.holder == 0 {
		visit(step{"locks", h, n, -1}, p.ask(w, h, n))
	}
	if a.number > 0 && !p.oneRound && !at.blank && (mine || p.anyWriter) {
		visit(step{"writes its number to", h, n, -1}, p.write(w, h, n))
	}
	if mine && a.phase == over {
		visit(step{"loses its lock at", h, n, -1}, p.drop(w, n))
	}
}
