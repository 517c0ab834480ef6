package history

import (
	"container/heap"
	"fmt"
	"slices"
	"sort"
	"time"
)

// once judges units by how often each is remembered, if that was looked for, and by what
// reads counted. Tries of one unit are one unit: see [mergeTries].
//
// It is sound: an accepted unit raises the count by one between its Began and its Ended,
// an unknown one may do so at any time after its Began, and nothing else changes the
// count. A history is accused if no choice of such moments fits all reads.
func once(s *story) *Violation {
	for _, op := range s.units {
		if op.Traced && (op.Outcome == Accepted && op.Counted != 1 || op.Outcome == Unknown && op.Counted > 1) {
			return violation(fmt.Sprintf("This unit was %s, and is remembered %d times.", op.Outcome, op.Counted), op).
				expect("%s should be remembered %s, not %d times: its outcome is %s.", requestOf(op), remembered[op.Outcome], op.Counted, op.Outcome)
		}
	}
	if v := fallen(s); v != nil {
		return v
	}
	sure := filter(s.units, func(op *Op) bool { return op.Outcome == Accepted })
	steps := newSteps(s.reads, len(s.units)+1)
	if v := lost(s, steps, spansOf(steps, sure)); v != nil {
		return v
	}
	return surplus(s, steps, spansOf(steps, s.countable()))
}

// countable returns the units that explain the count. Refused units are among them only
// if trace accuses them of being counted.
func (s *story) countable() []*Op {
	left := countedTrace(s) != nil
	return filter(s.units, func(op *Op) bool { return !undone(op) || left })
}

func fallen(s *story) *Violation {
	byCount := func(a, b *Op) int { return a.Counted - b.Counted }
	for _, read := range s.reads {
		if read.Counted < 0 {
			return violation("Less was counted than when the history began.", read).
				expect("counted %d, should be at least 0: nothing takes units away.", read.Counted)
		}
	}
	for top, read := range before(s.counted, s.reads, byCount) {
		if read.Counted < top.Counted {
			return violation(fmt.Sprintf("%d were counted, and after that %d.", top.Counted, read.Counted), top, read).
				expect("counted %d, should be at least %d: nothing takes units away.", read.Counted, top.Counted)
		}
	}
	return nil
}

// surplus finds a step that no unit explains. It is the last of the shortest row of steps
// that is too long for the units that may be in it. (There is such a row: no accepted
// unit was lost, and only those can be left over.)
func surplus(s *story, count *steps, spans []span) *Violation {
	k := unexplained(spans, count.top)
	if k == 0 {
		return nil
	}
	if v := s.appliedTwice(count.high[k].read, k); v != nil {
		return v
	}
	among := slices.DeleteFunc(spans, func(sp span) bool { return sp.first > k })
	until := tally(among, count.top+1, func(sp span) int { return sp.last })
	from, fit := k, until[count.top+1]
	for i := count.top + 1; i > k; i-- {
		fit += until[i-1]
	}
	for ; from > 1 && fit >= k-from+1; from-- {
		fit += until[from-1]
	}
	among = slices.DeleteFunc(among, func(sp span) bool { return sp.last < from })
	why := fmt.Sprintf("%d counted, and only %d can have been.", k, from-1+len(among))
	var since *Op
	if from > 1 {
		since = count.low[from].read
		why = fmt.Sprintf("%d were counted, then %d, and in between only %d can have been.", from-1, k, len(among))
	}
	among = slices.DeleteFunc(among, func(sp span) bool { return undone(sp.op) })
	read := count.high[k].read
	return violation(why, append(opsOf(among), since, read)...).
		expect("%s", s.tooMany(read, k-1, tallied{from - 1, opsOf(among)}))
}

// lost finds accepted units without a step. After them comes the shortest row of steps
// that is too short for the units that must be in it.
func lost(s *story, count *steps, spans []span) *Violation {
	sp, found := missing(spans, count.top)
	if !found {
		return nil
	}
	j := sp.last
	among := slices.DeleteFunc(spans, func(sp span) bool { return sp.last > j })
	since := tally(among, count.top+1, func(sp span) int { return sp.first })
	from, must := count.top+1, since[count.top+1]
	for from > 1 && (from > j+1 || must <= j-from+1) {
		from--
		must += since[from]
	}
	among = slices.DeleteFunc(among, func(sp span) bool { return sp.first < from })[:j-from+2]
	why := fmt.Sprintf("%d were acknowledged, and after that only %d counted.", j+1, j)
	var base *Op
	if from > 1 {
		base = count.high[from-1].read
		why = fmt.Sprintf("%d were counted, %d more acknowledged, and after that only %d counted.", from-1, len(among), j)
	}
	read := count.low[j+1].read
	units := opsOf(among)
	if slices.ContainsFunc(units, wasTried) {
		why, units = "lost: "+why, firstAccepted(units)
	}
	return violation(why, append(units, base, read)...).
		expect("%s", s.tooFew(read, j+1, tallied{from - 1, opsOf(among)}))
}

// appliedTwice returns the violation of a read that counted k or more, if fewer units can
// have been applied until then, and one of them has a Key.
func (s *story) appliedTwice(read *Op, k int) *Violation {
	begun := mayHaveApplied(filter(s.units, func(op *Op) bool { return !undone(op) && op.Began <= read.Ended }))
	if len(begun) >= k || !slices.ContainsFunc(begun, wasTried) {
		return nil
	}
	why := fmt.Sprintf("applied twice: %d counted, and only %d can have been: %s.", k, len(begun), list(begun))
	return violation(why, append(begun, read)...).expect("%s", s.tooMany(read, len(begun), tallied{0, begun}))
}

// wasTried reports whether op stands for the tries of one unit.
func wasTried(op *Op) bool { return op.tries != nil }

// mayHaveApplied returns units without the tries that applied nothing.
func mayHaveApplied(units []*Op) []*Op {
	return reduced(units, func(op *Op) []*Op { return filter(op.tries.ops, func(try *Op) bool { return !undone(try) }) })
}

// firstAccepted returns accepted units with the one try that was accepted first.
func firstAccepted(units []*Op) []*Op {
	return reduced(units, func(op *Op) []*Op {
		return filter(op.tries.ops, func(try *Op) bool { return try.Outcome == Accepted && try.Ended == op.Ended })[:1]
	})
}

// reduced returns units with only the tries that keep returns.
func reduced(units []*Op, keep func(*Op) []*Op) []*Op {
	all := slices.Clone(units)
	for i, op := range all {
		if wasTried(op) {
			less := *op
			less.tries = &attempts{keep(op)}
			all[i] = &less
		}
	}
	return all
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

// trace judges refused and failed ops by three kinds of evidence: the op was looked for
// and found; another write read the version that only this op made; or a read counted
// more units than were accepted or may have been, and at most as many as with the refused
// ones.
//
// It is sound: the outcomes Refused and Failed promise that nothing was or will be
// applied.
func trace(s *story) *Violation {
	for _, op := range s.changes {
		if undone(op) && op.Counted > 0 {
			return violation(fmt.Sprintf("This %s was %s, and is remembered.", op.Kind, op.Outcome), op).
				expect("%s should be remembered 0 times, not %d: its outcome is %s.", requestOf(op), op.Counted, op.Outcome)
		}
	}
	if v := seenTrace(s); v != nil {
		return v
	}
	return countedTrace(s)
}

func undone(op *Op) bool { return op.Outcome == Refused || op.Outcome == Failed }

// ghosts returns the versions that only refused or failed writes made, and for each the
// write that read it.
func ghosts(s *story) map[int64][2]*Op {
	made, real := make(map[int64]*Op), make(map[int64]bool)
	for _, op := range s.changes {
		if op.Made > 0 && undone(op) {
			made[op.Made] = op
		} else if op.Kind == Write && !undone(op) {
			real[op.Made] = true // version 0 is unknown: it may be any
		}
	}
	seen := make(map[int64][2]*Op)
	if len(made) == 0 {
		return seen
	}
	for _, op := range s.changes {
		if ghost := made[op.Seen]; ghost != nil && !real[op.Seen] && !real[0] && seen[op.Seen][0] == nil {
			seen[op.Seen] = [2]*Op{ghost, op}
		}
	}
	return seen
}

func seenTrace(s *story) *Violation {
	var first [2]*Op
	for _, pair := range ghosts(s) {
		if first[1] == nil || pair[1].Began < first[1].Began {
			first = pair
		}
	}
	if first[1] == nil {
		return nil
	}
	return violation(fmt.Sprintf("Version %d was %s, and yet it was read.", first[0].Made, first[0].Outcome), first[0], first[1]).
		expect("%s should have left no version %d to be read.", requestOf(first[0]), first[0].Made)
}

// countedTrace finds the first read that counted refused units.
func countedTrace(s *story) *Violation {
	possible := 0
	began := s.units
	explained := 0
	for _, read := range s.counted {
		for len(began) > 0 && began[0].Began <= read.Ended {
			if undone(began[0]) {
				explained++
			} else {
				possible++
			}
			began = began[1:]
		}
		if over := read.Counted - possible; over > 0 && over <= explained {
			return violation(fmt.Sprintf("%d units counted, and only %d can have been: %d more were refused or failed.",
				read.Counted, possible, explained), append(slices.Clone(s.units[:len(s.units)-len(began)]), read)...).
				expect("counted %d, should be at most %d: what was refused or failed is not counted.", read.Counted, possible)
		}
	}
	return nil
}

// steps is what reads show about a count that rises by one at a time, from 0. Step k, at
// which the count rises to k, is at low[k] or later, since until then a read saw less. It
// is at high[k] or sooner, since by then a read saw k or more.
type steps struct {
	top       int // the last step that a read saw
	low, high []stamp
}

// stamp is a limit and the read that sets it, or nil.
type stamp struct {
	at   time.Duration
	read *Op
}

// newSteps requires that no read is below 0 or below an earlier read. Steps beyond limit
// are alike and count as one.
func newSteps(reads []*Op, limit int) *steps {
	s := &steps{}
	for _, read := range reads {
		s.top = max(s.top, min(read.Counted, limit))
	}
	s.low = slices.Repeat([]stamp{{at: -never}}, s.top+2)
	s.high = slices.Repeat([]stamp{{at: never}}, s.top+2)
	for _, read := range reads {
		k := min(read.Counted, s.top)
		if low := &s.low[k+1]; read.Began > low.at {
			*low = stamp{read.Began, read}
		}
		if high := &s.high[k]; read.Ended < high.at {
			*high = stamp{read.Ended, read}
		}
	}
	s.spread()
	return s
}

// spread extends what is known about one step to the steps after it or before it.
func (s *steps) spread() {
	for k := 1; k < len(s.low); k++ {
		if s.low[k-1].at > s.low[k].at {
			s.low[k] = s.low[k-1]
		}
	}
	for k := len(s.high) - 2; k >= 0; k-- {
		if s.high[k+1].at < s.high[k].at {
			s.high[k] = s.high[k+1]
		}
	}
}

// span is a unit and the steps that it may have been, from first to last, or none if
// first is greater. The step after the top stands for all steps that no read saw.
type span struct {
	op          *Op
	first, last int
}

func (s *steps) span(op *Op) span {
	ended := mayEnd(op)
	if undone(op) {
		ended = never // it may have been applied at any time
	}
	return span{
		op:    op,
		first: 1 + sort.Search(s.top, func(i int) bool { return s.high[i+1].at >= op.Began }),
		last:  sort.Search(s.top+1, func(i int) bool { return s.low[i+1].at > ended }),
	}
}

// A match gives each step one of the units whose span contains it: the unit whose last
// step comes first. If any choice works, this one does (a convex bipartite graph). Units
// that must be counted and steps that must be explained are matched separately, since two
// such matches can always be combined (Mendelsohn and Dulmage, 1958).

// unexplained returns the first of the steps 1 to top that no unit explains, or 0. Spans
// are sorted by their first steps.
func unexplained(spans []span, top int) int {
	var open deadlines
	for k := 1; k <= top; k++ {
		spans = open.admit(spans, k)
		for len(open) > 0 && open[0].last < k {
			heap.Pop(&open)
		}
		if len(open) == 0 {
			return k
		}
		heap.Pop(&open)
	}
	return 0
}

// missing returns the first span all of whose steps are taken by other spans that must be
// counted, and whether there is one.
func missing(spans []span, top int) (span, bool) {
	var open deadlines
	for k := 1; k <= top+1; k++ {
		spans = open.admit(spans, k)
		if len(open) == 0 {
			continue
		}
		if open[0].last < k {
			return *open[0], true
		}
		heap.Pop(&open)
	}
	return span{}, false
}

// deadlines is a heap of spans, by their last steps.
type deadlines []*span

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].last < d[j].last }
func (d deadlines) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *deadlines) Push(sp any)       { *d = append(*d, sp.(*span)) }

func (d *deadlines) Pop() any {
	last := len(*d) - 1
	sp := (*d)[last]
	*d = (*d)[:last]
	return sp
}

// admit adds those of spans that begin by step k, and returns the others.
func (d *deadlines) admit(spans []span, k int) []span {
	for len(spans) > 0 && spans[0].first <= k {
		heap.Push(d, &spans[0])
		spans = spans[1:]
	}
	return spans
}

func spansOf(s *steps, units []*Op) []span {
	spans := make([]span, len(units))
	for i, op := range units {
		spans[i] = s.span(op)
	}
	slices.SortFunc(spans, func(a, b span) int { return a.first - b.first })
	return spans
}
