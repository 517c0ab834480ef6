package history

import "slices"

// A match gives each step one of the units whose span it is in, the one whose
// last step comes first: if any choice works then this one does (a convex
// bipartite graph). Units that must be counted and steps that must be explained
// are matched apart, since two such matches can always be made one (Mendelsohn
// and Dulmage, 1958).

// unexplained returns the first of the steps 1 to top that no unit explains, or
// 0. Spans are in the order of their first steps.
func unexplained(spans []span, top int) int {
	var open deadlines
	for k := 1; k <= top; k++ {
		spans = open.admit(spans, k)
		for len(open) > 0 && open[0].last < k {
			open.pop()
		}
		if len(open) == 0 {
			return k
		}
		open.pop()
	}
	return 0
}

// missing returns the first span all of whose steps are taken by others that
// must be counted too, and whether there is one.
func missing(spans []span, top int) (span, bool) {
	var open deadlines
	for k := 1; k <= top+1; k++ {
		spans = open.admit(spans, k)
		if len(open) == 0 {
			continue
		}
		if open[0].last < k {
			return open[0], true
		}
		open.pop()
	}
	return span{}, false
}

// deadlines is a heap of spans, by their last steps. (container/heap, which boxes
// each, makes the whole of Check a third slower.)
type deadlines []span

// admit takes in those of spans that begin by step k, and returns the others.
func (d *deadlines) admit(spans []span, k int) []span {
	for len(spans) > 0 && spans[0].first <= k {
		d.push(spans[0])
		spans = spans[1:]
	}
	return spans
}

func (d *deadlines) push(sp span) {
	*d = append(*d, sp)
	h := *d
	for i := len(h) - 1; i > 0 && h[i].last < h[(i-1)/2].last; i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
}

// pop takes out the span whose last step comes first, which is the first one.
func (d *deadlines) pop() {
	h := *d
	h[0] = h[len(h)-1]
	h = h[:len(h)-1]
	*d = h
	for i := 0; 2*i+1 < len(h); {
		child := 2*i + 1
		if child+1 < len(h) && h[child+1].last < h[child].last {
			child++
		}
		if h[i].last <= h[child].last {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

func spansOf(s *steps, units []*Op) []span {
	spans := make([]span, len(units))
	for i, op := range units {
		spans[i] = s.span(op)
	}
	slices.SortFunc(spans, func(a, b span) int { return a.first - b.first })
	return spans
}
