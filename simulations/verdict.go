package simulations

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fencepost/fencepost/simulations/history"
)

// Verdict is the error for code that does not survive.
type Verdict struct {
	// Interleaving is the name by which `go test -run` performs it again. Of a
	// toothless run it is "plan" or "random".
	Interleaving string
	// Broken are the rules that were broken, with the shortest history that
	// breaks each. There are none where the run was toothless: no interleaving
	// corrupted the twin either, so that nothing was proven.
	Broken []history.Violation
	// History is all that was put down of the interleaving. Run draws it as a
	// page, of the first that fails.
	History history.History
	// Said is the error of a Do whom nobody disturbed, if there was one: what it
	// was refused for, say.
	Said error
}

// Toothless reports whether the twin was never corrupted.
func (v *Verdict) Toothless() bool { return len(v.Broken) == 0 }

// Breaks reports whether a rule is among those that were broken, by its id.
func (v *Verdict) Breaks(id string) bool {
	return slices.ContainsFunc(v.Broken, func(b history.Violation) bool { return b.Rule.ID == id })
}

// Unwrap returns Said.
func (v *Verdict) Unwrap() error { return v.Said }

func (v *Verdict) Error() string {
	if v.Toothless() {
		return "simulations: toothless (" + v.Interleaving + "): the unguarded twin was never corrupted, so nothing was proven. " +
			"A guard that is not Fencepost's needs Subject.Unguarded, a service behind HTTP httppoint.Handler, code in memory a simulations.Point, and a protected table the mode 'observe': see docs/testing.md"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "simulations: %s", v.Interleaving)
	for _, broken := range v.Broken {
		fmt.Fprintf(&text, "\n%s", broken)
	}
	if v.Said != nil {
		fmt.Fprintf(&text, "\n%s", v.Said)
	}
	return text.String()
}
