package timeline

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/fencepost/fencepost/internal/history"
)

// story is the history of one resource.
type story struct {
	resource  string
	ops       []*history.Op // sorted by Began
	elsewhere int           // ops about other resources
	broken    *history.Violation
	bad       map[*history.Op]bool // the ops of broken
	steps     []step
	leases    []lease
}

func newStory(s Chart) *story {
	st := &story{bad: map[*history.Op]bool{}, resource: busiest(s.History.Ops)}
	if len(s.Violations) > 0 {
		st.broken = &s.Violations[0]
		st.resource = cmp.Or(st.broken.Resource, st.resource)
	}
	st.take(s.History.Ops)
	byBegan := func(a, b *history.Op) int { return cmp.Compare(a.Began, b.Began) }
	if !slices.IsSortedFunc(st.ops, byBegan) {
		slices.SortStableFunc(st.ops, byBegan)
	}
	st.steps = climb(st.ops)
	st.leases = leases(st.ops)
	return st
}

// take takes the ops of the resource, and the ops of the violation that are not in the
// history.
func (st *story) take(ops []history.Op) {
	missing := map[history.Op]bool{}
	began := map[time.Duration]bool{} // compared first: an op is large, and there may be a million
	if st.broken != nil {
		for _, op := range st.broken.Ops {
			missing[op], began[op.Began] = true, true
		}
	}
	for i := range ops {
		op := &ops[i]
		if op.Resource != st.resource {
			st.elsewhere++
			continue
		}
		st.ops = append(st.ops, op)
		if began[op.Began] && missing[*op] {
			delete(missing, *op)
			st.bad[op] = true
		}
	}
	if len(missing) > 0 {
		for i := range st.broken.Ops {
			if op := &st.broken.Ops[i]; missing[*op] {
				st.ops = append(st.ops, op)
				st.bad[op] = true
			}
		}
	}
}

// busiest returns the resource with the most ops. If there are several, it returns the
// first.
func busiest(ops []history.Op) string {
	count := map[string]int{}
	var known []string
	for i := range ops {
		r := ops[i].Resource
		if count[r]++; count[r] == 1 {
			known = append(known, r)
		}
	}
	most := ""
	for _, r := range known {
		if count[r] > count[most] {
			most = r
		}
	}
	return most
}

// step is a change of the mark: the number that was accepted last.
type step struct {
	at     time.Duration
	number int64
	fell   bool
}

// climb returns the steps of the mark. The mark rises to each number that is accepted or
// read. It falls only to a number whose op began after an op with a greater number had
// ended. If two ops overlap, the smaller number may have come first, which is not a fall.
func climb(ops []*history.Op) []step {
	var known []*history.Op
	for _, op := range ops {
		if raises(op) {
			known = append(known, op)
		}
	}
	began := slices.Clone(known) // already sorted by Began
	slices.SortStableFunc(known, func(a, b *history.Op) int { return cmp.Compare(a.Ended, b.Ended) })
	tops := topsBefore(began, known)
	var steps []step
	var level int64
	for _, op := range known {
		fell := op.Number < level && op.Number < tops[op]
		if op.Number > level || fell {
			level = op.Number
			steps = append(steps, step{op.Ended, level, fell})
		}
	}
	return steps
}

// raises reports whether op, a claim, a write or a read of the mark, shows a mark.
func raises(op *history.Op) bool {
	change := (op.Kind == history.Claim || op.Kind == history.Write) && op.Number > 0
	return op.Outcome == history.Accepted && (change || op.Kind == history.Mark)
}

// topsBefore maps each op to the greatest number that had ended before it began.
func topsBefore(began, ended []*history.Op) map[*history.Op]int64 {
	tops := make(map[*history.Op]int64, len(began))
	var top int64
	for _, op := range began {
		for len(ended) > 0 && ended[0].Ended < op.Began {
			top = max(top, ended[0].Number)
			ended = ended[1:]
		}
		tops[op] = top
	}
	return tops
}

// levelAt returns the mark after all ops that ended by then. Before the first step it is
// 0.
func levelAt(steps []step, at time.Duration) int64 {
	i := sort.Search(len(steps), func(i int) bool { return steps[i].at > at })
	if i == 0 {
		return 0
	}
	return steps[i-1].number
}

// never is after all instants.
const never = time.Duration(1<<63 - 1)

// end is how a lease ended.
type end string

const (
	open     end = "" // unknown, or after the end of the chart
	expired  end = "lease over"
	released end = "released"
	lost     end = "lost"
)

// lease is the time for which a grant was held, as far as the history shows.
type lease struct {
	writer      string
	number      int64
	holder      string
	from, until time.Duration
	end         end
	unconfirmed bool // the answer to the grant was lost
}

type grant struct {
	number int64
	holder string
}

// leases returns the leases in the order of their grants.
func leases(ops []*history.Op) []lease {
	var all []lease
	index := map[grant]int{}
	for _, op := range ops {
		key := grant{op.Number, op.Holder}
		i, known := index[key]
		switch {
		case !known && op.Kind == history.Acquire && op.Number > 0 && op.Outcome != history.Refused && op.Outcome != history.Failed:
			index[key] = len(all)
			all = append(all, newLease(op))
		case known:
			all[i].follow(op)
		}
	}
	return all
}

func newLease(op *history.Op) lease {
	l := lease{writer: op.Writer, number: op.Number, holder: op.Holder, from: op.Ended, until: never}
	l.unconfirmed = op.Outcome != history.Accepted
	l.extend(op)
	return l
}

// follow applies an op to the lease.
func (l *lease) follow(op *history.Op) {
	switch {
	case (op.Kind == history.Acquire || op.Kind == history.Renew) && op.Outcome == history.Accepted:
		if l.end == open || l.end == expired {
			l.extend(op)
		}
	case (op.Kind == history.Renew || op.Kind == history.Release) && op.Outcome == history.Refused:
		l.cut(op.Ended, lost)
	case op.Kind == history.Release && op.Outcome == history.Accepted:
		l.cut(op.Ended, released)
	case op.Kind == history.Release:
		l.cut(op.Began, released) // it may have been applied at once
	}
}

func (l *lease) extend(op *history.Op) {
	if op.Until > 0 {
		l.until, l.end = op.Until, expired
	}
}

func (l *lease) cut(at time.Duration, how end) {
	if at < l.until {
		l.until, l.end = at, how
	}
}

// focus returns the first and the last op of the violation, or else the first refusal or
// fault.
func (st *story) focus() (first, last int) {
	first, last = -1, -1
	for i, op := range st.ops {
		if st.bad[op] {
			last = i
			if first < 0 {
				first = i
			}
		}
	}
	if first >= 0 {
		return first, last
	}
	at := slices.IndexFunc(st.ops, func(op *history.Op) bool {
		return op.Kind == history.Fault || op.Outcome == history.Refused && (op.Kind == history.Write || op.Kind == history.Claim)
	})
	return max(at, 0), max(at, 0)
}

// involved returns the writers and the numbers of the violation.
func (st *story) involved() map[any]bool {
	known := map[any]bool{}
	for op := range st.bad {
		known[op.Writer] = true
		if op.Number > 0 {
			known[op.Number] = true
		}
	}
	return known
}

// Ops that are unrelated to the violation are shown if they are near it.
const (
	leastRelated = 2
	within       = 2000
)

// rank returns how much op matters. 0 matters most.
func (st *story) rank(op *history.Op, involved map[any]bool, first, last *history.Op) int {
	meanwhile := op.Ended >= first.Began && op.Began <= last.Ended
	switch {
	case st.bad[op]:
		return 0
	case op.Kind == history.Fault && involved[op.Writer] && meanwhile:
		return 1
	case involved[op.Number] && op.Kind != history.Write && op.Kind != history.Renew:
		return 1
	}
	return leastRelated
}

func abs(n int) int { return max(n, -n) }

// cutting is the part of a story that is drawn.
type cutting struct {
	*story
	shown []*history.Op // sorted by Began
	left  int           // ops that are not shown
}

// mostLanes is how many writers a cutting has at most.
const mostLanes = 8

// around is how many ops are shown around a violation. More would hide it.
const around = 48

// cut returns at most n ops: those of the violation, then the grants and faults that led
// to them, then the ops next to them.
func (st *story) cut(n int) cutting {
	if st.broken != nil {
		n = min(n, around)
	}
	if len(st.ops) <= n {
		return cutting{st, st.ops, 0}
	}
	first, last := st.focus()
	involved := st.involved()
	var all []ranked
	for i, op := range st.ops {
		r := ranked{i, st.rank(op, involved, st.ops[first], st.ops[last]), min(abs(i-first), abs(i-last))}
		if r.rank < leastRelated || r.away < within {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.away, b.away), cmp.Compare(a.index, b.index))
	})
	return st.keep(all, n)
}

// ranked is the rank of an op.
type ranked struct{ index, rank, away int }

// keep returns the first n of all that belong to at most mostLanes writers.
func (st *story) keep(all []ranked, n int) cutting {
	writers := map[string]bool{}
	var kept []int
	behind := 0
	for _, r := range all {
		if r.rank == 1 {
			behind++
		}
		name := st.ops[r.index].Writer
		crowd := !writers[name] && len(writers) == mostLanes
		if len(kept) == n || crowd || r.rank == 1 && behind > n/3 {
			continue // a long violation can have any number of earlier faults
		}
		writers[name] = true
		kept = append(kept, r.index)
	}
	sort.Ints(kept)
	c := cutting{story: st, left: len(st.ops) - len(kept)}
	for _, i := range kept {
		c.shown = append(c.shown, st.ops[i])
	}
	return c
}
