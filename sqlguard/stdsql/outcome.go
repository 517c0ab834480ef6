package stdsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/token"
)

var (
	errEndedByFn = errors.New("stdsql: fn has ended the transaction itself")
	errEndedInFn = errors.New("stdsql: the transaction ended inside fn, and fn went on")
)

// commit goes by what ROLLBACK says where COMMIT fails: if there was still
// something to roll back, nothing was applied. If not, SQLite may have rolled
// back by itself, or may not have been able to say that it had committed.
func (t *transaction) commit(ctx context.Context) error {
	if err := ctx.Err(); err != nil && !leaseOver(context.Cause(ctx)) {
		return t.abort(fmt.Errorf("stdsql: commit was not sent: %w", err), false)
	}
	err := t.Commit()
	switch {
	case err == nil:
		return nil
	case t.clear(), t.busy(err), t.violated(err):
		// Some drivers have rolled back by now, when SQLite had not.
		return t.outcome(fmt.Errorf("stdsql: commit: %w", err))
	case errors.Is(err, sql.ErrTxDone):
		return t.unknown(errEndedByFn)
	case t.none(err):
		return t.unknown(errEndedInFn)
	}
	return t.unknown(fmt.Errorf("stdsql: commit: %w", err))
}

// abort rolls back, and returns err with what it means. cut says that err is
// how fn heard of the end of a transaction that had ended before.
func (t *transaction) abort(err error, cut bool) error {
	ended := t.Rollback()
	switch {
	case ended == nil || t.clear():
		return t.outcome(err)
	case errors.Is(ended, sql.ErrTxDone):
		return t.unknown(fmt.Errorf("%w: %w", errEndedByFn, err))
	case t.none(ended) && !cut:
		return t.unknown(fmt.Errorf("%w: %w", errEndedInFn, err))
	}
	return t.outcome(err)
}

// outcome gives err, of a transaction of which nothing was applied, the
// outcome that it means, if any.
func (d *dialect) outcome(err error) error {
	if !d.busy(err) || guard.Refusal(err) || errors.Is(err, guard.ErrRetryable) {
		return err
	}
	return fmt.Errorf("%w: %w", guard.ErrRetryable, err)
}

func (t *transaction) unknown(err error) error {
	t.end = point.Unknown
	return fmt.Errorf("%w: %w", guard.ErrUnknown, err)
}

func leaseOver(cause error) bool {
	return errors.Is(cause, token.ErrLost) || errors.Is(cause, token.ErrReleased)
}
