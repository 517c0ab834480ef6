package timeline

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/fencepost/fencepost/internal/history"
)

// story is the history of one resource.
type story struct {
	Chart
	resource string
	ops      []*history.Op       // sorted by Began
	bad      map[history.Op]bool // those of the first violation
	steps    []step
	leases   []lease
}

func newStory(c Chart) *story {
	s := &story{Chart: c, bad: map[history.Op]bool{}}
	if len(c.History.Ops) > 0 {
		s.resource = c.History.Ops[0].Resource
	}
	if len(c.Violations) > 0 {
		s.resource = c.Violations[0].Resource
		for _, op := range c.Violations[0].Ops {
			s.bad[op] = true
		}
	}
	for i := range c.History.Ops {
		if op := &c.History.Ops[i]; op.Resource == s.resource {
			s.ops = append(s.ops, op)
		}
	}
	slices.SortStableFunc(s.ops, byBegan)
	s.steps, s.leases = climb(s.ops), leases(s.ops)
	return s
}

func byBegan(a, b *history.Op) int { return cmp.Compare(a.Began, b.Began) }

// cut returns at most n ops of at most mostLanes writers, sorted by Began: those of the
// violation, then the grants, claims and faults that led to it, then those near it. Without a
// violation it does so for the first fault or refused write.
func (s *story) cut(n int) (kept []*history.Op) {
	var focus []int
	for i, op := range s.ops {
		if s.bad[*op] && len(focus) < n {
			focus = append(focus, i)
		}
	}
	if len(focus) == 0 {
		focus = []int{max(0, slices.IndexFunc(s.ops, func(op *history.Op) bool {
			return op.Kind == history.Fault || op.Kind == history.Write && op.Outcome == history.Refused
		}))}
	}
	order, away := make([]int, len(s.ops)), make([]int, len(s.ops))
	for i, op := range s.ops {
		order[i], away[i] = i, len(s.ops)
		cause := false
		for _, f := range focus {
			bad := s.ops[f]
			away[i] = min(away[i], max(i-f, f-i))
			cause = cause || op.Number > 0 && op.Number == bad.Number && op.Kind != history.Write && op.Kind != history.Renew ||
				op.Kind == history.Fault && op.Writer == bad.Writer && op.Ended >= s.ops[focus[0]].Began && op.Began <= bad.Ended
		}
		if cause || away[i] == 0 {
			away[i] -= len(s.ops)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return away[a] - away[b] })
	writers := map[string]bool{}
	for _, i := range order {
		op := s.ops[i]
		if crowded := !writers[op.Writer] && len(writers) == mostLanes; len(kept) < n && !crowded {
			writers[op.Writer] = true
			kept = append(kept, op)
		}
	}
	slices.SortStableFunc(kept, byBegan)
	return kept
}

// step is a change of the mark: the number that was accepted last.
type step struct {
	op   *history.Op // the claim, write or read of the mark that showed it
	mark int64
	top  int64 // the greatest mark until then
	fell bool
}

// climb returns the steps of the mark. The mark rises to each number that is accepted or read.
// It falls to a number whose op began after an op with a greater one had ended. If two ops
// overlap, the smaller number may have come first, which is no fall.
func climb(ops []*history.Op) (steps []step) {
	ended := slices.Clone(ops)
	slices.SortStableFunc(ended, func(a, b *history.Op) int { return cmp.Compare(a.Ended, b.Ended) })
	for _, op := range ended {
		change := (op.Kind == history.Claim || op.Kind == history.Write) && op.Number > 0
		if op.Outcome != history.Accepted || !change && op.Kind != history.Mark {
			continue
		}
		now := stepAt(steps, op.Ended)
		if fell := op.Number < min(now.mark, stepAt(steps, op.Began-1).top); op.Number > now.mark || fell {
			steps = append(steps, step{op, op.Number, max(now.top, op.Number), fell})
		}
	}
	return steps
}

// stepAt returns the last step until then, or an empty one.
func stepAt(steps []step, at time.Duration) step {
	i := sort.Search(len(steps), func(i int) bool { return steps[i].op.Ended > at })
	if i == 0 {
		return step{}
	}
	return steps[i-1]
}

// lease is the time for which a grant was held, as far as the history shows.
type lease struct {
	op    *history.Op   // the grant
	until time.Duration // the greatest there is, if it did not end
	by    *history.Op   // which ended it; nil if only its time was over
}

// leases returns the leases in the order of their grants.
func leases(ops []*history.Op) (all []lease) {
	index := map[history.Op]int{} // of the grants, of which only the token is set
	for _, op := range ops {
		key := history.Op{Number: op.Number, Holder: op.Holder}
		i, known := index[key]
		if known {
			all[i].follow(op)
		} else if op.Kind == history.Acquire && op.Outcome == history.Accepted {
			index[key] = len(all)
			all = append(all, lease{op: op, until: cmp.Or(op.Until, math.MaxInt64)})
		}
	}
	return all
}

// follow applies a later op of the grant.
func (l *lease) follow(op *history.Op) {
	switch {
	case op.Outcome == history.Accepted && op.Until > 0:
		l.until, l.by = op.Until, nil
	case (op.Kind == history.Release || op.Kind == history.Renew && op.Outcome == history.Refused) && op.Ended < l.until:
		l.until, l.by = op.Ended, op
	}
}
