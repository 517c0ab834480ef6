package picture

import (
	"cmp"
	"slices"
	"time"

	"github.com/fencepost/fencepost/simulations/history"
)

// story is what a history says of one resource.
type story struct {
	resource  string
	ops       []*history.Op // in the order of Began
	elsewhere int           // ops about other resources
	broken    *history.Violation
	bad       map[*history.Op]bool // the ops of broken
	steps     []step
	leases    []lease
}

func newStory(s Scene) *story {
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

// take takes the ops of the resource, and those of the violation that the
// history does not have.
func (st *story) take(ops []history.Op) {
	missing := map[history.Op]bool{}
	began := map[time.Duration]bool{} // asked first: an op is large, and there may be a million
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

// busiest is the resource with the most ops; of several the first.
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
