package adopt

import (
	"context"
	"database/sql"
	"errors"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"

	"github.com/fencepost/fencepost/examples/adopt/internal/ent"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// Ent sets the balance through ent, in the guard's transaction.
func Ent(ctx context.Context, fence *stdsql.Guard, balance int64) error {
	return fence.Update(ctx, "account/42", func(tx *sql.Tx) error {
		return Inside(tx).Account.UpdateOneID(42).SetBalance(balance).Exec(ctx)
	})
}

// Inside returns a client whose statements are all part of tx.
func Inside(tx *sql.Tx) *ent.Client {
	conn := entsql.Conn{ExecQuerier: tx}
	return ent.NewClient(ent.Driver(inside{entsql.NewDriver(dialect.Postgres, conn)}))
}

// inside is a driver that is already in a transaction, which the guard commits or rolls
// back. ent calls Tx for a write in several statements.
type inside struct{ *entsql.Driver }

func (d inside) Tx(context.Context) (dialect.Tx, error) { return dialect.NopTx(d), nil }

func (inside) BeginTx(context.Context, *entsql.TxOptions) (dialect.Tx, error) {
	return nil, errors.New("adopt: the transaction is the guard's")
}

func (inside) Close() error { return nil }
