package redisquorum_test

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// protocol is an instance of the quorum's protocol that can be searched: nodes, holders
// that acquire once each, and how often a node loses its memory. The fields below the gap
// break the protocol.
//
// The model has no clock. Conditions replace time: a lock ends when its holder has given
// up, and an unrecovered node waits until the holders that had begun when it lost its
// memory have ended, or have renewed without it. Messages may take any time and arrive in
// any order, which also models a disconnected node.
type protocol struct {
	nodes, holders, losses int

	clock bool // numbers may be minted by a clock that is ahead of the counters

	oneRound  bool // the first round decides, and there is no second
	anyWriter bool // a node stores the number although another holder has the lock
	noMarker  bool // a node without memory continues to vote
	atOnce    bool // an unrecovered node does not wait
	fewer     int  // how many fewer of the other nodes a recovery reads
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
	counter, holder uint8 // holder is 1 or greater, or 0 for none
	unrecovered     bool
	pending         uint8 // the holders that may count on a vote that it has forgotten
	read, highest   uint8 // its recovery: the nodes read so far, and the highest counter
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

// step is the next event of a world.
type step struct {
	verb   string
	holder int // -1 if the step has none
	node   int // -1 if the step has none
	other  int // -1 if the step has none
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

// steps calls visit with each event that can happen next in w.
func (p protocol) steps(w world, visit func(step, world)) {
	for h := range p.holders {
		p.stepsOf(w, h, visit)
	}
	for n := range p.nodes {
		if w.losses > 0 {
			visit(step{"loses its memory", -1, n, -1}, p.lose(w, n))
		}
		if at := &w.places[n]; at.unrecovered && (at.pending == 0 || p.atOnce) {
			p.stepsOfRecovery(w, n, visit)
		}
	}
}

func (p protocol) stepsOfRecovery(w world, n int, visit func(step, world)) {
	at := &w.places[n]
	for other := range p.nodes {
		if other != n && !w.places[other].unrecovered && at.read>>other&1 == 0 {
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
		return // holders that have not begun are interchangeable
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

// stepsAt makes messages arrive at any time, also twice, and also after their sender has
// ended.
func (p protocol) stepsAt(w world, h, n int, visit func(step, world)) {
	a, at := &w.attempts[h], &w.places[n]
	mine := at.holder == uint8(h+1)
	if !at.unrecovered && at.holder == 0 {
		visit(step{"locks", h, n, -1}, p.ask(w, h, n))
	}
	if a.number > 0 && !p.oneRound && !at.unrecovered && (mine || p.anyWriter) {
		visit(step{"writes its number to", h, n, -1}, p.write(w, h, n))
	}
	if mine && a.phase == over {
		visit(step{"loses its lock at", h, n, -1}, p.drop(w, n))
	}
}

// ask is the first round at a node. A late request still locks.
func (p protocol) ask(w world, h, n int) world {
	a, at := &w.attempts[h], &w.places[n]
	at.holder = uint8(h + 1)
	if a.phase > asking {
		return w
	}
	a.phase = asking
	a.votes |= 1 << n
	if p.oneRound {
		at.counter++
	}
	a.highest = max(a.highest, at.counter)
	return w
}

func (p protocol) mint(w world, h int, ahead uint8) world {
	number := w.attempts[h].highest + 1 + ahead
	if p.oneRound {
		number--
	}
	w.attempts[h] = attempt{phase: writing, number: number}
	return w
}

func (p protocol) write(w world, h, n int) world {
	a, at := &w.attempts[h], &w.places[n]
	at.counter = max(at.counter, a.number)
	if a.phase == writing {
		a.wrote |= 1 << n
	}
	return w
}

func (p protocol) use(w world, h int) world {
	w.attempts[h].phase, w.attempts[h].wrote = holding, 0
	w.last = max(w.last, w.attempts[h].number)
	return w
}

// end makes h stop using its number. Its messages may still arrive.
func (p protocol) end(w world, h int) world {
	w.attempts[h] = attempt{phase: over, number: w.attempts[h].number}
	return p.forget(w, h)
}

func (p protocol) drop(w world, n int) world {
	w.places[n].holder = 0
	return w
}

// forget means that no unrecovered node has to wait for h: it has ended, or its lease is
// younger than the loss of memory.
func (p protocol) forget(w world, h int) world {
	for n := range p.nodes {
		w.places[n].pending &^= 1 << h
	}
	return w
}

func (p protocol) renewable(w world, h int) bool {
	locks := 0
	for n := range p.nodes {
		if at := w.places[n]; !at.unrecovered && at.holder == uint8(h+1) {
			locks++
		}
	}
	return locks >= p.need() && p.forget(w, h) != w
}

func (p protocol) lose(w world, n int) world {
	w.losses--
	w.places[n] = place{}
	if p.noMarker {
		return w
	}
	w.places[n].unrecovered = true
	for h, a := range w.attempts {
		if a.phase != idle && a.phase != over {
			w.places[n].pending |= 1 << h
		}
	}
	return w
}

func (p protocol) read(w world, n, other int) world {
	at := &w.places[n]
	at.read |= 1 << other
	at.highest = max(at.highest, w.places[other].counter)
	return w
}

func (p protocol) join(w world, n int) world {
	w.places[n] = place{counter: w.places[n].highest}
	return w
}

// wrong returns a description of a violation right after a step, or "".
type wrong func(p protocol, before, after world) string

func numbers(p protocol, before, after world) string {
	number := p.used(before, after)
	switch {
	case number == 0 || number > before.last:
		return ""
	case number == before.last:
		return fmt.Sprintf("number %d repeats", number)
	}
	return fmt.Sprintf("number %d comes after %d", number, before.last)
}

func holders(p protocol, before, after world) string {
	now := 0
	for _, a := range after.attempts {
		if a.phase == holding {
			now++
		}
	}
	if now > 1 && p.used(before, after) > 0 {
		return "two hold"
	}
	return ""
}

// used returns the number that came into use by the step, or 0.
func (p protocol) used(before, after world) uint8 {
	for h := range p.holders {
		if before.attempts[h].phase == writing && after.attempts[h].phase == holding {
			return after.attempts[h].number
		}
	}
	return 0
}

// visited is a world and the steps that led to it.
type visited struct {
	world
	from int32
	by   step
}

// search visits every reachable world, nearest first. It returns how many there are, or
// the steps to the first violation.
func (p protocol) search(all ...wrong) (worlds int, how string) {
	start := world{losses: uint8(p.losses)}
	seen := map[world]struct{}{p.normal(start): {}}
	found := []visited{{start, -1, step{}}}
	for at := 0; at < len(found) && how == ""; at++ {
		before := found[at].world
		p.steps(before, func(by step, after world) {
			for _, wrong := range all {
				if what := wrong(p, before, after); what != "" && how == "" {
					how = fmt.Sprintf("%s%s\n%s", p.story(found, at), by, what)
				}
			}
			key := p.normal(after)
			if _, old := seen[key]; !old {
				seen[key] = struct{}{}
				found = append(found, visited{after, int32(at), by})
			}
		})
	}
	return len(found), how
}

func (p protocol) story(all []visited, at int) string {
	var steps []string
	for ; all[at].from >= 0; at = int(all[at].from) {
		steps = append([]string{all[at].by.String() + "\n"}, steps...)
	}
	return strings.Join(steps, "")
}

// normal returns the same world for all worlds that differ only in the order of the
// nodes.
func (p protocol) normal(w world) world {
	var order [len(w.places)]int
	for n := range order {
		order[n] = n
	}
	slices.SortStableFunc(order[:p.nodes], func(m, n int) int { return cmp.Compare(w.signature(m), w.signature(n)) })
	is := w
	for to, from := range order {
		is.places[to] = w.places[from]
		is.places[to].read = moved(w.places[from].read, order)
	}
	for h := range w.attempts {
		is.attempts[h].votes = moved(w.attempts[h].votes, order)
		is.attempts[h].wrote = moved(w.attempts[h].wrote, order)
	}
	return is
}

// signature distinguishes a node from the others, independent of its index.
func (w *world) signature(n int) uint64 {
	at := &w.places[n]
	sig := uint64(at.counter) | uint64(at.holder)<<8 | uint64(at.pending)<<16
	sig |= uint64(at.highest)<<24 | uint64(count(at.read))<<32
	if at.unrecovered {
		sig |= 1 << 40
	}
	for h, a := range w.attempts {
		sig |= uint64(a.votes>>n&1|a.wrote>>n&1<<1) << (48 + 2*h)
	}
	return sig
}

func moved(set uint8, order [5]int) (is uint8) {
	for to, from := range order {
		is |= set >> from & 1 << to
	}
	return is
}
