package adopt

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// Bun sets the balance in a transaction of bun's. Join comes first in it.
func Bun(ctx context.Context, db *bun.DB, fence *stdsql.Guard, balance int64) error {
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if err := fence.Join(ctx, tx, "account/42"); err != nil {
			return err
		}
		_, err := tx.NewUpdate().Table("accounts").Set("balance = ?", balance).Where("id = 42").Exec(ctx)
		return err
	})
}
