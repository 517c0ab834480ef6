package sqlguard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/guard"
)

// slow is how long a transaction has lasted whose session may have been ended
// meanwhile, for being idle or in a successor's way.
const slow = 100 * time.Millisecond

// finish commits after fn has returned nil. A caller who has left by then gets
// a certain answer, nothing applied; one who leaves later does not cut the
// COMMIT off. A lost lease does neither.
func (c *call) finish(ctx context.Context, tx pgx.Tx, begun time.Time) error {
	if err := ctx.Err(); err != nil && !leaseOver(context.Cause(ctx)) {
		return fmt.Errorf("sqlguard: commit was not sent: %w", err)
	}
	ctx, cancel := detached(ctx, grace)
	defer cancel()
	_, inside := transaction(c.db)
	if !inside && time.Since(begun) > slow && !tx.Conn().IsClosed() {
		if err := tx.Conn().Ping(ctx); err != nil {
			return nothingApplied(fmt.Errorf("sqlguard: commit was not sent: %w", err))
		}
	}
	sent := !tx.Conn().IsClosed()
	err := tx.Commit(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrTxClosed):
		return &verdict{guard.ErrUnknown, fmt.Errorf("sqlguard: fn has ended the transaction itself: %w", err)}
	case sent && !inside && (severed(err) || interrupted(err)):
		return &verdict{guard.ErrUnknown, err}
	}
	return nothingApplied(fmt.Errorf("sqlguard: commit: %w", err))
}

// interrupted reports whether the answer to a COMMIT is the end of the session.
// That may come behind the COMMIT as well, which pgx does not tell:
//
//  1. the COMMIT is being flushed, a successor ends the session
//  2. the server commits, and puts its answer into the buffer
//  3. it logs how long that took, and only there sees that it is to end
//  4. the answers are COMMIT and FATAL
func interrupted(err error) bool {
	code := sqlState(err)
	return code == codeTerminated || code == codeTooLong
}
