package picture

import (
	"slices"

	"github.com/fencepost/fencepost/simulations/history"
)

// focus is the first and the last op of what the picture is about: the
// violation, or else the first refusal or fault.
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

// involved are the writers and the numbers of the violation.
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

// What has nothing to do with the violation is shown if it is near.
const (
	leastRelated = 2
	within       = 2000
)

// rank is how much op matters; 0 is the most.
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
