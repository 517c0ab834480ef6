package sqlguard

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/internal/sqltext"
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

// at tells a listener where the transaction of the call has come to. In one that
// the caller began there is nothing to tell but the admission.
func (c *call) at(ctx context.Context, step point.Step) {
	if !point.Listening(ctx) {
		return
	}
	tx, inside := transaction(c.db)
	switch {
	case !inside:
		point.At(ctx, step, c)
	case step == point.Admitted:
		point.At(ctx, step, tracedAs(tx.Conn()))
	}
}

// wrote says, for a listener and nobody else, whether a statement wrote.
func wrote(ctx context.Context, tag pgconn.CommandTag) bool {
	return point.Listening(ctx) && sqltext.Wrote(tag.String())
}

// tracedAs returns what a tracer of conn calls the transaction that is open there,
// and conn where none does.
func tracedAs(conn *pgx.Conn) any {
	if conn == nil {
		return conn
	}
	if key, traced := conn.PgConn().CustomData()[point.Custom]; traced {
		return key
	}
	return conn
}

// last is the last step of a transaction of which the caller is told err.
func last(err error) point.Step {
	switch {
	case err == nil:
		return point.Applied
	case errors.Is(err, guard.ErrUnknown):
		return point.Unknown
	}
	return point.Undone
}
