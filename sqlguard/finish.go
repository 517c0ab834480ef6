package sqlguard

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/guard"
)

// finish commits after fn has returned nil. A caller who has left by then gets
// a certain answer, nothing applied; one who leaves later does not cut the
// COMMIT off. A lost lease does neither.
func (c *call) finish(ctx context.Context, tx pgx.Tx) error {
	if err := ctx.Err(); err != nil && !leaseOver(context.Cause(ctx)) {
		return fmt.Errorf("sqlguard: commit was not sent: %w", err)
	}
	ctx, cancel := detached(ctx, grace)
	defer cancel()
	_, inside := transaction(c.db)
	sent := !tx.Conn().IsClosed()
	err := tx.Commit(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrTxClosed):
		return &verdict{guard.ErrUnknown, fmt.Errorf("sqlguard: fn has ended the transaction itself: %w", err)}
	case sent && !inside && severed(err):
		return &verdict{guard.ErrUnknown, err}
	}
	return nothingApplied(fmt.Errorf("sqlguard: commit: %w", err))
}
