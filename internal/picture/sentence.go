package picture

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/fencepost/fencepost/simulations/history"
)

// sentence says an op in words, for whoever points at it.
func (f *figure) sentence(op *history.Op) string {
	text := fmt.Sprintf("%s, %s: %s %s", f.millis(op.Began), brief(op.Writer, nameLength), cmp.Or(brief(op.Note, nameLength), string(op.Kind)), op.Outcome)
	if op.Number > 0 {
		text += fmt.Sprintf(", #%d", op.Number)
	}
	return text + ", until " + f.millis(op.Ended)
}

// describe says the whole figure in words, for whoever does not see it.
func (f *figure) describe() string {
	if len(f.shown) == 0 {
		return "Nothing happened."
	}
	var names []string
	for _, l := range f.lanes[:min(len(f.lanes), mostLanes)] {
		names = append(names, brief(l.name, nameLength))
	}
	text := fmt.Sprintf("Time runs from left to right, for %s ms. A lane each for %s. Under them the mark of %s, which changes %d times.",
		f.millis(f.to), strings.Join(names, ", "), brief(f.resource, nameLength), len(f.fence.steps))
	if f.broken != nil {
		text += fmt.Sprintf(" At %s ms the rule %s is broken: %s", f.millis(f.callout.at), f.broken.Rule.ID, f.broken.Why)
	}
	return text
}
