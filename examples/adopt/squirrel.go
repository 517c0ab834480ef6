package adopt

import (
	"context"
	"database/sql"

	"github.com/Masterminds/squirrel"

	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// Squirrel sets the balance with a statement that squirrel has built.
func Squirrel(ctx context.Context, fence *stdsql.Guard, balance int64) error {
	return fence.Update(ctx, "account/42", func(tx *sql.Tx) error {
		set := squirrel.Update("accounts").Set("balance", balance).Where("id = 42")
		_, err := set.PlaceholderFormat(squirrel.Dollar).RunWith(tx).ExecContext(ctx)
		return err
	})
}
