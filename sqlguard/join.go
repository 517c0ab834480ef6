package sqlguard

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/point"
)

// Join admits the tokens that ctx carries for the resources in a transaction
// that is open already, in bytewise order and in one packet, and bounds how
// long it may be idle from then on. It must come before anything is read that
// the write depends on, as its first statement best of all: what was read
// before may lack an older token's last write. Two transactions that join
// resources one by one, in opposite orders, deadlock: name them all at once.
//
// After an error the transaction is aborted and can only be rolled back, or
// back to a savepoint made before; whoever ignores the error writes nothing.
// Under REPEATABLE READ or SERIALIZABLE a token that has yet to raise the mark
// cannot do so any more: [guard.ErrClaimFirst]. Where older writers do not
// leave within Idle the error is [guard.ErrRetryable]. Outside a transaction,
// claim ([Guard.Admit]), and neither happens.
//
// An admission ends with the transaction or savepoint it was made in. Join,
// ROLLBACK TO the savepoint before it, write: that write is unguarded, and a
// stale one gets through. Join outside of the savepoints that may be rolled
// back.
func (g *Guard) Join(ctx context.Context, tx pgx.Tx, resources ...string) error {
	names, err := sorted(resources)
	if err != nil {
		return err
	}
	c, err := g.call(ctx, tx, names...)
	if err != nil {
		return err
	}
	if err := c.by(c.stmts.admitBounded, c.bound()).join(ctx); err != nil {
		return err
	}
	c.at(ctx, point.Admitted)
	return nil
}

func (c *call) join(ctx context.Context) error {
	f, err := c.fly(ctx, packet{})
	if err != nil {
		return err
	}
	return f.end(nil)
}

// nest begins a savepoint of the caller's transaction and admits behind it, so
// that a refusal leaves the rest of that transaction usable.
func (c *call) nest(ctx context.Context, outer pgx.Tx) (pgx.Tx, error) {
	inner, err := outer.Begin(ctx)
	if err != nil {
		return nil, guard.WithLoss(ctx, nothingApplied(err))
	}
	c.db = inner
	if err := c.join(ctx); err != nil {
		rollback(ctx, inner)
		return nil, err
	}
	return inner, nil
}
