package adopt

import (
	"context"
	"database/sql"
	"errors"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"

	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// Ent sets the balance through ent's driver, in the guard's transaction. The client that ent
// generates takes the same driver: ent.NewClient(ent.Driver(Inside(tx))).
func Ent(ctx context.Context, fence *stdsql.Guard, balance int64) error {
	return fence.Update(ctx, "account/42", func(tx *sql.Tx) error {
		set := entsql.Dialect(dialect.Postgres).Update("accounts").Set("balance", balance)
		query, args := set.Where(entsql.EQ("id", 42)).Query()
		return Inside(tx).Exec(ctx, query, args, nil)
	})
}

// Inside returns a driver whose statements are all part of tx.
func Inside(tx *sql.Tx) dialect.Driver {
	return inside{entsql.NewDriver(dialect.Postgres, entsql.Conn{ExecQuerier: tx})}
}

// inside is a driver that is already in a transaction, which the guard commits or rolls
// back. ent calls Tx for a write in several statements.
type inside struct{ *entsql.Driver }

func (d inside) Tx(context.Context) (dialect.Tx, error) { return dialect.NopTx(d), nil }

func (inside) BeginTx(context.Context, *entsql.TxOptions) (dialect.Tx, error) {
	return nil, errors.New("adopt: the transaction is the guard's")
}

func (inside) Close() error { return nil }
