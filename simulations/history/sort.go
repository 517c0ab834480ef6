package history

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

// byTime returns ops in the order of a time. The times are copied first: a
// million ops lie far apart in memory.
func byTime(ops []*Op, at func(*Op) time.Duration) []*Op {
	type timed struct {
		at time.Duration
		op *Op
	}
	all := make([]timed, len(ops))
	for i, op := range ops {
		all[i] = timed{at(op), op}
	}
	slices.SortFunc(all, func(a, b timed) int { return cmp.Compare(a.at, b.at) })
	ordered := make([]*Op, len(ops))
	for i := range all {
		ordered[i] = all[i].op
	}
	return ordered
}

// sorted returns ops in another order, and leaves ops as they are.
func sorted(ops []*Op, compare func(a, b *Op) int) []*Op {
	other := slices.Clone(ops)
	slices.SortFunc(other, compare)
	return other
}

// before yields for each op of later, which is in the order of Began, the
// greatest op of earlier, which is in the order of Ended, that ended before it
// began. What ended in the same instant as another began may have come after it.
func before(earlier, later []*Op, compare func(a, b *Op) int) iter.Seq2[*Op, *Op] {
	return func(yield func(top, op *Op) bool) {
		var top *Op
		for _, op := range later {
			for len(earlier) > 0 && earlier[0].Ended < op.Began {
				if top == nil || compare(earlier[0], top) > 0 {
					top = earlier[0]
				}
				earlier = earlier[1:]
			}
			if top != nil && !yield(top, op) {
				return
			}
		}
	}
}
