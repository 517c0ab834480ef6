package write

import (
	"context"

	"github.com/fencepost/fencepost/bench/measure"
	"github.com/fencepost/fencepost/sqlguard"
)

const updateProtectedSQL = "UPDATE protected SET balance = $1 WHERE id = $2"

// protected is what the trigger adds to a write that is admitted anyway.
func (g *Group) protected(m mode) measure.Figure {
	var conns [many]sqlguard.Conn
	for worker := range conns {
		conns[worker] = m.guard().On(resource(worker))
	}
	on := func(sql string) measure.Op {
		return func(ctx context.Context, worker int) error {
			return g.exec(ctx, conns[worker], sql, account(worker))
		}
	}
	return measure.Figure{
		Name: "On(…).Exec, protected table", Baseline: "On(…).Exec",
		Context: own(current),
		Plain:   on(updateSQL),
		Ours:    on(updateProtectedSQL),
	}
}
