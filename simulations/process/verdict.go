package process

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fencepost/fencepost/simulations/history"
)

// Verdict is the error for code that does not survive, and for rounds that prove
// nothing.
type Verdict struct{ Report Report }

// Toothless reports whether the twin was not corrupted as it had to be, so that
// nothing was proven.
func (v *Verdict) Toothless() bool { return len(v.Report.Guarded.Broken) == 0 }

// Breaks reports whether a rule is among those that were broken, by its id.
func (v *Verdict) Breaks(id string) bool {
	return slices.ContainsFunc(v.Report.Guarded.Broken, func(b history.Violation) bool { return b.Rule.ID == id })
}

func (v *Verdict) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "process: %s", v.Report)
	if v.Toothless() {
		text.WriteString("\ntoothless: a write must come too late, guarded or not, and without its guard the resource must accept every one, or nothing is proven. " +
			"A guard that is not Fencepost's needs Subject.Unguarded, and a service in another process too")
	}
	for _, broken := range v.Report.Guarded.Broken {
		fmt.Fprintf(&text, "\n%s", broken)
	}
	return text.String()
}
