package write

import (
	"context"

	"github.com/fencepost/fencepost/bench/measure"
)

// onExec has all workers write under one token, each its own row.
func (g *Group) onExec(m mode) measure.Figure {
	conn := m.guard().On(branch)
	return measure.Figure{
		Name: "On(…).Exec", Baseline: "plain UPDATE", Target: m.target(1.22, 1.45),
		Context: shared(current),
		Plain:   g.plain(m),
		Ours: func(ctx context.Context, worker int) error {
			return g.exec(ctx, conn, updateSQL, account(worker))
		},
	}
}
