package stdsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/token"
)

var (
	errEndedByFn = errors.New("stdsql: fn has ended the transaction itself")
	errEndedInFn = errors.New("stdsql: the transaction ended inside fn, and fn went on")
)

func (t *transaction) commit(ctx context.Context) error {
	if err := ctx.Err(); err != nil && !leaseOver(context.Cause(ctx)) {
		return t.abort(ctx, fmt.Errorf("stdsql: commit was not sent: %w", err), false)
	}
	switch err := t.checked(ctx); {
	case errors.Is(err, errEndedInFn):
		return t.unknown(err)
	case err != nil:
		return t.meaning(fmt.Errorf("stdsql: commit was not sent: %w", err))
	}
	err := t.Commit()
	switch {
	case err == nil:
		return nil
	case t.undone(t, err):
		return t.meaning(fmt.Errorf("stdsql: commit: %w", err))
	case errors.Is(err, sql.ErrTxDone):
		return t.unknown(errEndedByFn)
	case t.over(err):
		return t.unknown(errEndedInFn)
	}
	return t.unknown(fmt.Errorf("stdsql: commit: %w", err))
}

// abort rolls back, and returns err with what it means. cut says that err is
// how fn heard of the end of a transaction that had ended before.
func (t *transaction) abort(ctx context.Context, err error, cut bool) error {
	over := errors.Is(t.checked(ctx), errEndedInFn)
	ended := t.Rollback()
	switch {
	case ended == nil && !over, ended != nil && t.clear(t, ended):
		return t.meaning(err)
	case errors.Is(ended, sql.ErrTxDone):
		return t.unknown(fmt.Errorf("%w: %w", errEndedByFn, err))
	case (over || t.over(ended)) && !cut:
		return t.unknown(fmt.Errorf("%w: %w", errEndedInFn, err))
	}
	return t.meaning(err)
}

// checked is for what fn may have done.
func (t *transaction) checked(ctx context.Context) error {
	if !t.held {
		return nil
	}
	return t.check(point.Within(context.WithoutCancel(ctx), t), t)
}

func (t *transaction) meaning(err error) error { return meaning(t.dialect, err, time.Since(t.begun)) }

// meaning gives err, of a transaction of which nothing was applied, the outcome
// that it means, if any.
func meaning(d dialect, err error, age time.Duration) error {
	if err == nil || hasOutcome(err) {
		return err
	}
	if outcome := d.outcome(err, age); outcome != nil {
		return fmt.Errorf("%w: %w", outcome, err)
	}
	return err
}

func hasOutcome(err error) bool {
	for _, outcome := range []error{guard.ErrRetryable, guard.ErrEvicted, guard.ErrClaimFirst, guard.ErrUnknown} {
		if errors.Is(err, outcome) {
			return true
		}
	}
	return guard.Refusal(err)
}

func (t *transaction) unknown(err error) error {
	t.end = point.Unknown
	return fmt.Errorf("%w: %w", guard.ErrUnknown, err)
}

func leaseOver(cause error) bool {
	return errors.Is(cause, token.ErrLost) || errors.Is(cause, token.ErrReleased)
}
