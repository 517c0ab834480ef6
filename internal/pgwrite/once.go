package pgwrite

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/pgadmit"
	"github.com/fencepost/fencepost/internal/writectx"
)

// unit is a unit of the call's one resource. A nil unit is that of a write that is not
// applied once.
type unit struct {
	resource string
	key      string
	args     []any // resource, key, fingerprint, retention
	stmts    *statements
	found    *string // the server's reply: nil if the unit did not exist
}

// insertion returns the statement that inserts the unit.
func (u *unit) insertion() []Statement {
	if u == nil {
		return nil
	}
	return []Statement{{SQL: u.stmts.insertUnit, Args: u.args}}
}

// scan reads the reply to the insertion.
func (u *unit) scan(row pgx.Row) error { return row.Scan(&u.found) }

// first returns the result of a unit that existed, or [guard.ErrKeyReused].
func (u *unit) first() ([]byte, error) {
	result, same, err := pgadmit.FirstResult(*u.found)
	switch {
	case err != nil:
		return nil, fmt.Errorf("sqlguard: unit %s of %s: %w", u.key, u.resource, err)
	case !same:
		return nil, fmt.Errorf("sqlguard: unit %s of %s: %w", u.key, u.resource, guard.ErrKeyReused)
	}
	return result, nil
}

// Once runs fn as Update does, in a transaction that also inserts the unit named of
// resource with fn's result, and returns that result. If the unit exists, it returns the
// first result, also to a token that the mark refuses. The call has the token of resource.
func (c *Call) Once(ctx context.Context, resource string, named guard.Unit, fn func(tx pgx.Tx) ([]byte, error)) ([]byte, error) {
	keep, err := guard.RetentionOr(c.Retention)
	if err == nil {
		err = named.Validate()
	}
	if err != nil {
		return nil, err
	}
	u := &unit{resource: resource, key: named.Key, args: []any{resource, named.Key, named.Sum(), pgadmit.Interval(keep)}, stmts: statementsOf(c.Schema)}
	c.quiet = true
	noteTried(ctx, resource, named.Key)
	tx, over, err := c.begin(ctx, u)
	if err != nil {
		return c.afterRefusal(ctx, u, err)
	}
	if u.found != nil {
		return c.repeat(ctx, u, tx, over)
	}
	var result []byte
	err = c.run(ctx, tx, over, func(tx pgx.Tx) (err error) {
		if result, err = fn(tx); err != nil {
			return err
		}
		if err = guard.CheckResult(result); err != nil || len(result) == 0 {
			return err
		}
		if _, err = tx.Exec(ctx, u.stmts.setResult, resource, named.Key, result); SQLState(err) == pgadmit.WrongTx {
			err = &OutcomeError{guard.ErrUnknown, err}
		}
		return err
	})
	if err != nil {
		return nil, guard.WithCause(ctx, err)
	}
	return result, nil
}

// repeat ends tx, in which the unit was found, and returns the first result after a COMMIT
// that waits for it: see [pgadmit.ConfirmSQL]. In the caller's transaction it is the
// caller's COMMIT that waits.
func (c *Call) repeat(ctx context.Context, u *unit, tx pgx.Tx, over session) ([]byte, error) {
	end := stepUndone
	defer func() {
		_ = rollback(ctx, tx) // unless it is committed
		over.giveBack()
		c.at(end)
	}()
	result, err := u.first()
	if err != nil {
		return nil, err
	}
	inner, stop := writectx.New(ctx)
	defer stop()
	if _, err = tx.Exec(c.reportedSteps(inner), u.stmts.confirm); err == nil {
		commit, cancel := writectx.ForCommit(ctx)
		defer cancel()
		err = tx.Commit(c.reportedSteps(commit))
	}
	if err != nil {
		end = stepUnknown
		err = fmt.Errorf("sqlguard: unit %s of %s is there, and it is not known whether the disk and the standbys have it: %w", u.key, u.resource, err)
		return nil, guard.WithCause(ctx, &OutcomeError{guard.ErrUnknown, err})
	}
	noteRepeated(ctx, u.resource, u.key)
	return result, nil
}

// afterRefusal returns the first result of the unit if err is the mark's refusal and the
// unit was applied. It is looked up after the refusal and not before it:
//
//  1. A's transaction is committed late. A repeats the unit, and does not find it yet.
//  2. A's transaction is committed. B is admitted.
//  3. A is refused, as if nothing had been applied.
//
// After a refusal no transaction of the refused token goes on: the newer token has waited
// for them.
func (c *Call) afterRefusal(ctx context.Context, u *unit, refusal error) ([]byte, error) {
	if !errors.As(refusal, new(*guard.StaleError)) {
		return nil, guard.WithCause(ctx, refusal)
	}
	err := c.QueryRow(ctx, u.stmts.findUnit, u.args[:3], &u.found, nil, nil)
	switch {
	case err != nil:
		return nil, guard.WithCause(ctx, NothingApplied(fmt.Errorf("sqlguard: whether unit %s of %s was applied before its token became stale: %w", u.key, u.resource, err)))
	case u.found == nil:
		return nil, guard.WithCause(ctx, c.Hooks.Outcome(ctx, refusal, false))
	}
	result, err := u.first()
	if err == nil {
		noteRepeated(ctx, u.resource, u.key)
	}
	return result, err
}
