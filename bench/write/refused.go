package write

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencepost/fencepost/bench/measure"
	"github.com/fencepost/fencepost/guard"
)

func (g *Group) onRefused(m mode) measure.Figure {
	conn := m.guard().On(branch)
	return measure.Figure{
		Name: "On(…).Exec, refused", Baseline: "UPDATE of a missing row", Target: m.target(1.7, 0),
		Setup:   func(ctx context.Context) error { return m.guard().Admit(ctx, current(branch)) },
		Context: shared(overtaken),
		Plain:   g.absent(m),
		Ours: func(ctx context.Context, worker int) error {
			_, err := conn.Exec(ctx, updateSQL, g.next(), account(worker))
			return refused(err)
		},
	}
}

// refused makes an error of everything but a refusal.
func refused(err error) error {
	switch {
	case err == nil:
		return errors.New("a late token was admitted")
	case errors.Is(err, guard.ErrStale):
		return nil
	}
	return fmt.Errorf("refused for another reason: %w", err)
}
