package write

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/bench/measure"
)

const (
	updateSQL = "UPDATE accounts SET balance = $1 WHERE id = $2"
	missing   = -1
)

// execer runs one statement, guarded or not.
type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// exec updates the row of an account, which must be there.
func (g *Group) exec(ctx context.Context, db execer, sql string, account int64) error {
	tag, err := db.Exec(ctx, sql, g.next(), account)
	return affected(tag, err, 1)
}

func (g *Group) plain(m mode) measure.Op {
	return func(ctx context.Context, worker int) error {
		return g.exec(ctx, m.pool, updateSQL, account(worker))
	}
}

// absent finds no row, as a refused write does.
func (g *Group) absent(m mode) measure.Op {
	return func(ctx context.Context, _ int) error {
		tag, err := m.pool.Exec(ctx, updateSQL, g.next(), missing)
		return affected(tag, err, 0)
	}
}

// closure is what a transaction is for in most programs.
func (g *Group) closure(ctx context.Context, worker int) func(pgx.Tx) error {
	return func(tx pgx.Tx) error { return g.exec(ctx, tx, updateSQL, account(worker)) }
}

// affected makes an error of a statement that did not do what is measured.
func affected(tag pgconn.CommandTag, err error, rows int64) error {
	if err == nil && tag.RowsAffected() != rows {
		return fmt.Errorf("%s: %d rows and not %d", tag, tag.RowsAffected(), rows)
	}
	return err
}
