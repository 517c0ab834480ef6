package write

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/bench/measure"
)

func (g *Group) update(m mode) measure.Figure {
	guard := m.guard()
	return measure.Figure{
		Name: "Update", Baseline: "the closure in pgx.BeginFunc", Target: m.target(1.30, 0),
		Context: shared(current),
		Plain: func(ctx context.Context, worker int) error {
			return pgx.BeginFunc(ctx, m.pool, g.closure(ctx, worker))
		},
		Ours: func(ctx context.Context, worker int) error {
			return guard.Update(ctx, branch, g.closure(ctx, worker))
		},
	}
}
