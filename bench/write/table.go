package write

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/bench/measure"
	"github.com/fencepost/fencepost/sqlguard"
)

func (m mode) table() *sqlguard.Table {
	return &sqlguard.Table{Guard: m.guard(), Name: pgx.Identifier{"fenced"}, Prefix: "account/"}
}

func (g *Group) set() sqlguard.Set { return sqlguard.Set{{"balance", g.next()}} }

func (g *Group) tableUpdate(m mode) measure.Figure {
	table := m.table()
	return measure.Figure{
		Name: "Table.Update", Baseline: "plain UPDATE", Target: m.target(1.03, 0),
		Setup:   claimed(m),
		Context: own(current),
		Plain:   g.plain(m),
		Ours: func(ctx context.Context, worker int) error {
			return table.Update(ctx, account(worker), g.set())
		},
	}
}

// tableRefused asks a second time why no row matched; the baseline does not care.
func (g *Group) tableRefused(m mode) measure.Figure {
	table := m.table()
	return measure.Figure{
		Name: "Table.Update, refused", Baseline: "UPDATE of a missing row", Target: m.target(2.2, 0),
		Setup:   claimed(m),
		Context: own(overtaken),
		Plain:   g.absent(m),
		Ours: func(ctx context.Context, worker int) error {
			return refused(table.Update(ctx, account(worker), g.set()))
		},
	}
}

// claimed gives each worker's row the mark of its newest token.
func claimed(m mode) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		for worker := range many {
			if err := m.table().Claim(ctx, current(resource(worker))); err != nil {
				return err
			}
		}
		return nil
	}
}
