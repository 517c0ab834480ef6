package simulations

import "fmt"

// tries are for a machine that is busy with other things: a lease runs out, a
// server ends a transaction that was idle for a moment.
const tries = 10

// undisturbed sends a writer to work and waits until it has ended; and another
// where it has not done its unit.
func (st *stage) undisturbed(name string) (*writer, error) {
	for n := 1; ; n++ {
		w := st.start(name, nowhere)
		if err := st.finish(); err != nil || n == tries || w.did {
			return w, err
		}
	}
}

// failed returns why w, whom nobody disturbed, has not done its unit. What
// became of its lease after that is not Do's fault.
func (w *writer) failed() error {
	if w.did {
		return nil
	}
	return fmt.Errorf("simulations: Do fails although nobody disturbs it, %d times: %w", tries, w.err)
}
