package stdsql

import (
	"context"

	"github.com/fencepost/fencepost/internal/point"
)

// simulated returns the guard in observe-only mode, and silent, where ctx is
// that of a simulation's unguarded twin.
func (g *Guard) simulated(ctx context.Context) *Guard {
	if !point.Observing(ctx) {
		return g
	}
	twin := *g
	twin.DangerouslyObserve = true
	if twin.Observer.Observed == nil {
		twin.Observer.Observed = func(context.Context, error) {}
	}
	return &twin
}
