package history

import (
	"fmt"
	"slices"
	"strings"
)

// Violation is a broken rule and the shortest history that [Check] found to
// break it: judged alone, with the same limits, Ops break that rule again.
type Violation struct {
	Rule     Rule
	Resource string
	Why      string // what these ops did against the rule
	Ops      []Op   // in the order of Began
}

func violation(why string, ops ...*Op) *Violation {
	v := &Violation{Why: why}
	known := map[*Op]bool{nil: true}
	for _, op := range ops {
		if !known[op] {
			known[op] = true
			v.Ops = append(v.Ops, *op)
		}
	}
	slices.SortStableFunc(v.Ops, func(a, b Op) int { return byBegan(&a, &b) })
	return v
}

// String returns the verdict: the rule, what broke it, and a time line.
func (v Violation) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s\n%s: %s\n", v.Rule.ID, v.Rule.Words, v.Resource, v.Why)
	timeline(&text, v.Ops)
	return text.String()
}
