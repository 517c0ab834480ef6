package redisquorum_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// visited is a world and how it was come to.
type visited struct {
	world
	from int32
	by   step
}

// search looks at every world that can come to be, nearest first, and returns
// how many there are, or how the first wrong one comes to be.
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

// normal is the same for worlds in which the nodes have merely changed places.
func (p protocol) normal(w world) world {
	var order [len(w.places)]int
	for n := range order {
		order[n] = n
	}
	slices.SortStableFunc(order[:p.nodes], func(m, n int) int { return cmp.Compare(w.look(m), w.look(n)) })
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

// look is what tells a node from the others, whatever its place.
func (w *world) look(n int) uint64 {
	at := &w.places[n]
	look := uint64(at.counter) | uint64(at.holder)<<8 | uint64(at.pending)<<16
	look |= uint64(at.highest)<<24 | uint64(count(at.read))<<32
	if at.blank {
		look |= 1 << 40
	}
	for h, a := range w.attempts {
		look |= uint64(a.votes>>n&1|a.wrote>>n&1<<1) << (48 + 2*h)
	}
	return look
}

func moved(set uint8, order [5]int) (is uint8) {
	for to, from := range order {
		is |= set >> from & 1 << to
	}
	return is
}
