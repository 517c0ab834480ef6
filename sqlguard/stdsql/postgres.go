package stdsql

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

const defaultIdle = 5 * time.Second

// postgres calls the functions that package sqlguard calls, over pgx.
type postgres struct {
	usual
	*statements
	bound   int32 // Guard.Idle in milliseconds, 0 for none
	observe bool
}

func newPostgres(g *Guard) *postgres {
	return &postgres{statements: statementsOf(g.Schema), bound: milliseconds(g.Idle), observe: g.DangerouslyObserve}
}

func milliseconds(idle time.Duration) int32 {
	switch {
	case idle < 0:
		return 0
	case idle == 0:
		idle = defaultIdle
	}
	// Rounded up: half a millisecond must not become none.
	return int32(min((idle+time.Millisecond-1)/time.Millisecond, math.MaxInt32))
}

// options: a raise waits for older writers, so its snapshot must be younger
// than the wait, whatever the session's default is.
func (*postgres) options(*sql.TxOptions) *sql.TxOptions {
	return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
}

// claimed, in place of a time to wait, admits only where the mark is the token's
// already. While a long transaction keeps a raise to itself, its writer looks to
// others like one of the token before.
const claimed = -1

func (d *postgres) admit(ctx context.Context, tx Tx, tok token.Token, w way) error {
	wait, query := d.bound, d.statements.admit
	switch w {
	case writing:
		wait = claimed
	case claiming:
		query = d.claim
	}
	if d.observe {
		return d.judge(ctx, tx, tok, wait)
	}
	_, err := tx.ExecContext(ctx, query, tok.Resource, tok.Number, tok.Holder, wait, d.bound)
	return d.answer(err, tok)
}

// judge does not raise an error, which would abort the transaction.
func (d *postgres) judge(ctx context.Context, tx Tx, tok token.Token, wait int32) error {
	var number *int64
	var holder *string
	err := tx.QueryRowContext(ctx, d.statements.observe, tok.Resource, tok.Number, tok.Holder, wait).Scan(&number, &holder)
	switch {
	case err != nil:
		return d.answer(err, tok)
	case number == nil:
		return nil
	case *number == 0:
		return &blocked{tok: tok, outcome: guard.ErrRetryable, err: errOlder, harmless: true}
	}
	return &guard.StaleError{Token: tok, Mark: guard.Mark{Number: *number, Holder: *holder}}
}

func (d *postgres) answer(err error, tok token.Token) error {
	switch sqlState(err) {
	case stateStale, stateCollision:
		return staleOf(tok, err)
	case stateClaimFirst:
		return &blocked{tok: tok, outcome: guard.ErrClaimFirst, err: err}
	case stateLockTimeout:
		return &blocked{tok: tok, outcome: guard.ErrRetryable, err: err}
	case stateNoSchema, stateNoFunction:
		return fmt.Errorf("stdsql: schema %q lacks what package migrations creates: %w", d.schema, err)
	}
	if err != nil {
		return fmt.Errorf("stdsql: admit %s: %w", tok, err)
	}
	return nil
}

func (d *postgres) patience() time.Duration {
	if d.observe { // to end sessions would be no mere observing
		return 0
	}
	return time.Duration(d.bound) * time.Millisecond
}

// evict has a READ COMMITTED transaction of its own: the function must see what
// is committed while it runs. An error with an SQLSTATE means that the role may
// not, or that the function is not there: then the claim waits on.
func (d *postgres) evict(ctx context.Context, db *sql.DB, tok token.Token) error {
	tx, err := db.BeginTx(ctx, d.options(nil))
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, d.statements.evict, tok.Resource, tok.Number); err != nil {
		if sqlState(err) != "" {
			return nil
		}
		return err
	}
	return tx.Commit()
}
