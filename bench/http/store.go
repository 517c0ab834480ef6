package http

import (
	"context"

	"github.com/fencepost/fencepost/bench/measure"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/guard/redisguard"
	"github.com/fencepost/fencepost/sqlguard"
)

// besideStores is what the middleware adds to a store that has to be asked over a
// connection.
func (g *Group) besideStores() []measure.Figure {
	figures := []measure.Figure{beside("PostgreSQL", &sqlguard.Guard{DB: g.pool}, g.current)}
	if g.redis != nil {
		figures = append(figures, beside("Redis", &redisguard.Guard{Client: g.redis}, g.current))
	}
	return figures
}

func beside(name string, store guard.Store, f fields) measure.Figure {
	return measure.Figure{
		Name: "in memory, marks in " + name, Baseline: "Admit, marks in " + name,
		Plain: func(ctx context.Context, worker int) error { return store.Admit(ctx, current(worker)) },
		Ours:  called(guarded(silent, store, nil), f),
	}
}
