package picture

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/fencepost/fencepost/simulations/history"
)

// step is a change of the mark: the number that was accepted last.
type step struct {
	at     time.Duration
	number int64
	fell   bool
}

// climb finds the steps of the mark: it rises to what is accepted, or read, and
// falls only to what began when something greater had ended: of two that were
// under way at once the smaller may have been first, and that is no fall.
func climb(ops []*history.Op) []step {
	var known []*history.Op
	for _, op := range ops {
		if raises(op) {
			known = append(known, op)
		}
	}
	began := slices.Clone(known) // ops are in that order
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

// raises says of a claim, a write or a look at the mark that it tells of one.
func raises(op *history.Op) bool {
	change := (op.Kind == history.Claim || op.Kind == history.Write) && op.Number > 0
	return op.Outcome == history.Accepted && (change || op.Kind == history.Mark)
}

// topsBefore finds for each op the greatest number that had ended before it
// began.
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

// levelAt is the mark after everything that ended by then. Before the first
// step it is 0.
func levelAt(steps []step, at time.Duration) int64 {
	i := sort.Search(len(steps), func(i int) bool { return steps[i].at > at })
	if i == 0 {
		return 0
	}
	return steps[i-1].number
}
