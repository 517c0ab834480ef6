package picture

import (
	"cmp"
	"slices"
	"sort"

	"github.com/fencepost/fencepost/simulations/history"
)

// cutting is what is drawn of a story.
type cutting struct {
	*story
	shown []*history.Op // in the order of Began
	left  int           // ops that are not shown
}

// mostLanes is how many writers a cutting has at most.
const mostLanes = 8

// around is how many ops are shown around a violation: more hide it.
const around = 48

// cut shows at most n ops: those of the violation, then the grants and faults
// behind them, then what is next to them.
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

// ranked is an op by how much it matters.
type ranked struct{ index, rank, away int }

// keep shows the first n of all, of not too many writers.
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
			continue // a long violation can have any number of faults behind it
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
