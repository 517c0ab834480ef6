package adopt

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// SQLX sets the balance in a transaction of sqlx's. Join comes first in it.
func SQLX(ctx context.Context, db *sqlx.DB, fence *stdsql.Guard, balance int64) error {
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := fence.Join(ctx, tx, "account/42"); err != nil {
		return err
	}
	args := map[string]any{"balance": balance}
	if _, err := tx.NamedExecContext(ctx, "UPDATE accounts SET balance = :balance WHERE id = 42", args); err != nil {
		return err
	}
	return tx.Commit()
}
