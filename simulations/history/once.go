package history

import (
	"fmt"
	"slices"
)

// once judges units by how often each is remembered, where that was looked for,
// and by what reads counted.
//
// It is sound: an accepted unit makes the count rise by one between its Began
// and its Ended, an unknown one may at any time from its Began on, and nothing
// else does. A history is accused where no choice of such moments fits all reads.
func once(s *story) *Violation {
	for _, op := range s.units {
		if op.Traced && (op.Outcome == Accepted && op.Counted != 1 || op.Outcome == Unknown && op.Counted > 1) {
			return violation(fmt.Sprintf("This unit was %s, and is remembered %d times.", op.Outcome, op.Counted), op)
		}
	}
	if v := fallen(s); v != nil {
		return v
	}
	sure := filter(s.units, func(op *Op) bool { return op.Outcome == Accepted })
	steps := newSteps(s.reads, len(s.units)+1)
	if v := lost(steps, spansOf(steps, sure)); v != nil {
		return v
	}
	return surplus(steps, spansOf(steps, s.countable()))
}

// countable are the units that explain what is counted: not the refused ones,
// unless trace accuses them of just that.
func (s *story) countable() []*Op {
	left := countedTrace(s) != nil
	return filter(s.units, func(op *Op) bool { return !undone(op) || left })
}

func fallen(s *story) *Violation {
	byCount := func(a, b *Op) int { return a.Counted - b.Counted }
	for _, read := range s.reads {
		if read.Counted < 0 {
			return violation("Less was counted than when the history began.", read)
		}
	}
	for top, read := range before(s.counted, s.reads, byCount) {
		if read.Counted < top.Counted {
			return violation(fmt.Sprintf("%d were counted, and after that %d.", top.Counted, read.Counted), top, read)
		}
	}
	return nil
}

// surplus finds a step that no unit explains. It is the last of the fewest steps
// in a row that are too many for the units that may have been among them. (There
// is such a row, since no accepted unit was lost: only those are ever left over.)
func surplus(s *steps, spans []span) *Violation {
	k := unexplained(spans, s.top)
	if k == 0 {
		return nil
	}
	among := slices.DeleteFunc(spans, func(sp span) bool { return sp.first > k })
	until := tally(among, s.top+1, func(sp span) int { return sp.last })
	from, fit := k, until[s.top+1]
	for i := s.top + 1; i > k; i-- {
		fit += until[i-1]
	}
	for ; from > 1 && fit >= k-from+1; from-- {
		fit += until[from-1]
	}
	among = slices.DeleteFunc(among, func(sp span) bool { return sp.last < from })
	why := fmt.Sprintf("%d counted, and only %d can have been.", k, from-1+len(among))
	var since *Op
	if from > 1 {
		since = s.low[from].read
		why = fmt.Sprintf("%d were counted, then %d, and in between only %d can have been.", from-1, k, len(among))
	}
	among = slices.DeleteFunc(among, func(sp span) bool { return undone(sp.op) })
	return violation(why, append(opsOf(among), since, s.high[k].read)...)
}

// lost finds accepted units for which there is no step. After them are the
// fewest steps that are together too few for the units that must be among them.
func lost(s *steps, spans []span) *Violation {
	sp, found := missing(spans, s.top)
	if !found {
		return nil
	}
	j := sp.last
	among := slices.DeleteFunc(spans, func(sp span) bool { return sp.last > j })
	since := tally(among, s.top+1, func(sp span) int { return sp.first })
	from, must := s.top+1, since[s.top+1]
	for from > 1 && (from > j+1 || must <= j-from+1) {
		from--
		must += since[from]
	}
	among = slices.DeleteFunc(among, func(sp span) bool { return sp.first < from })[:j-from+2]
	why := fmt.Sprintf("%d were acknowledged, and after that only %d counted.", j+1, j)
	var base *Op
	if from > 1 {
		base = s.high[from-1].read
		why = fmt.Sprintf("%d were counted, %d more acknowledged, and after that only %d counted.", from-1, len(among), j)
	}
	return violation(why, append(opsOf(among), base, s.low[j+1].read)...)
}

func tally(spans []span, top int, of func(span) int) []int {
	counts := make([]int, top+1)
	for _, sp := range spans {
		counts[of(sp)]++
	}
	return counts
}

func opsOf(spans []span) []*Op {
	ops := make([]*Op, len(spans))
	for i, sp := range spans {
		ops[i] = sp.op
	}
	return ops
}
