package adopt

import (
	"context"
	"database/sql"

	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// DatabaseSQL sets the balance with plain statements.
func DatabaseSQL(ctx context.Context, fence *stdsql.Guard, balance int64) error {
	return fence.Update(ctx, "account/42", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = $1 WHERE id = 42", balance)
		return err
	})
}
