package write

import (
	"context"

	"github.com/fencepost/fencepost/bench/measure"
)

// admit is of a token that has the mark, as for each lease that is renewed.
func (g *Group) admit(m mode) measure.Figure {
	guard := m.guard()
	return measure.Figure{
		Name: "Admit, claimed", Baseline: "SELECT 1",
		Plain: func(ctx context.Context, _ int) error {
			tag, err := m.pool.Exec(ctx, "SELECT 1")
			return affected(tag, err, 1)
		},
		Ours: func(ctx context.Context, _ int) error { return guard.Admit(ctx, current(branch)) },
	}
}

// mint is what a lock without numbers asks for, once for each acquisition.
func (g *Group) mint(m mode) measure.Figure {
	guard := m.guard()
	return measure.Figure{
		Name: "Mint", Baseline: "plain UPDATE",
		Plain: g.plain(m),
		Ours: func(ctx context.Context, worker int) error {
			_, err := guard.Mint(ctx, m.pool, "minted/"+resource(worker), "c2f1-worker-1")
			return err
		},
	}
}
