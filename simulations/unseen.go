package simulations

import (
	"fmt"
	"slices"

	"github.com/fencepost/fencepost/internal/point"
)

// unseenError is that of a Do that was acknowledged, and told of transactions
// of which none wrote.
type unseenError struct{ steps []string }

func (e *unseenError) Error() string {
	return fmt.Sprintf("simulations: nobody saw Do write, only that it began something: its steps: %q. "+
		"Either its write goes around the guard, or over a connection that nobody listens to: see pgxpoint and sqlpoint. "+
		"Where neither can be helped, Do tells of the write by simulations.Point: \"begin\" before it, \"applied\" after it", e.steps)
}

// unseen returns an error where somebody tells of the transactions of an
// undisturbed unit, of the claim's perhaps, and nobody of one that wrote. An
// unguarded write could then hide behind the claim, which is refused in its
// place. What a request comes to, its service knows.
func (st *stage) unseen() error {
	for _, w := range st.writers {
		steps := w.seen()
		steps = steps[slices.Index(steps, stepDo)+1:]
		if slices.Contains(steps, string(point.Begin)) && !slices.Contains(steps, string(point.Request)) && !w.traced.Load() {
			return &unseenError{steps}
		}
	}
	return nil
}
