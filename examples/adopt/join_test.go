package adopt_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"gorm.io/gorm"

	"github.com/fencepost/fencepost/examples/adopt"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

// unitOfWork is a program's own wrapper of a transaction.
type unitOfWork struct{ bun.Tx }

// anyOfBun is a wrapper of the interface that bun's transactions and pools share.
type anyOfBun struct{ bun.IDB }

// transactions begin a transaction in each library, and return it in each form.
var transactions = map[string]func(t *testing.T, db *sql.DB) (tx *sql.Tx, forms []stdsql.Tx){
	"sqlx": func(t *testing.T, db *sql.DB) (*sql.Tx, []stdsql.Tx) {
		tx, err := sqlx.NewDb(db, "pgx").BeginTxx(t.Context(), nil)
		require.NoError(t, err)
		return tx.Tx, []stdsql.Tx{tx, *tx, tx.Tx}
	},
	"bun": func(t *testing.T, db *sql.DB) (*sql.Tx, []stdsql.Tx) {
		tx, err := bun.NewDB(db, pgdialect.New()).BeginTx(t.Context(), nil)
		require.NoError(t, err)
		return tx.Tx, []stdsql.Tx{tx, &tx, unitOfWork{tx}, &unitOfWork{tx}, anyOfBun{tx}, tx.Tx}
	},
	"bun, in a savepoint": func(t *testing.T, db *sql.DB) (*sql.Tx, []stdsql.Tx) {
		outer, err := bun.NewDB(db, pgdialect.New()).BeginTx(t.Context(), nil)
		require.NoError(t, err)
		tx, err := outer.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		return outer.Tx, []stdsql.Tx{tx, &tx, unitOfWork{tx}}
	},
	"GORM": func(t *testing.T, db *sql.DB) (*sql.Tx, []stdsql.Tx) {
		tx := overGORM(t, db, gorm.Config{}).WithContext(t.Context()).Begin()
		require.NoError(t, tx.Error)
		return tx.Statement.ConnPool.(*sql.Tx), []stdsql.Tx{tx.Statement.ConnPool}
	},
	"GORM, with PrepareStmt": func(t *testing.T, db *sql.DB) (*sql.Tx, []stdsql.Tx) {
		tx := overGORM(t, db, gorm.Config{PrepareStmt: true}).WithContext(t.Context()).Begin()
		require.NoError(t, tx.Error)
		pool := tx.Statement.ConnPool.(*gorm.PreparedStmtTX)
		return pool.Tx.(*sql.Tx), []stdsql.Tx{pool}
	},
}

func TestJoinTakesTheTransactionsOfLibraries(t *testing.T) {
	t.Parallel()
	for name, begin := range transactions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := plain(t)
			fence := &stdsql.Guard{DB: db, IdleTimeout: time.Hour}
			ctx, err := fence.Mint(t.Context(), "account/42", "b")
			require.NoError(t, err)
			tx, forms := begin(t, db)
			for _, form := range forms {
				require.NoError(t, fence.Join(ctx, form, "account/42"), "%T", form)
			}
			require.NoError(t, deposited(ctx, tx))
			require.NoError(t, tx.Commit())

			late := token.NewContext(t.Context(), token.Token{Resource: "account/42", Number: 7, Holder: "zombie"})
			for i := range forms {
				tx, forms := begin(t, db)
				require.ErrorIs(t, fence.Join(late, forms[i], "account/42"), guard.ErrStale, "%T", forms[i])
				require.Error(t, deposited(late, tx), "%T: the error is ignored", forms[i])
				require.Error(t, tx.Commit(), "%T", forms[i])
			}
			balance, err := balanceOf(t.Context(), db)
			require.NoError(t, err)
			require.Equal(t, int64(110), balance)

			tx, forms = begin(t, db)
			next, err := fence.MintTx(t.Context(), forms[0], "account/42", "c")
			require.NoError(t, err)
			require.NoError(t, tx.Commit())
			nothing := func(*sql.Tx) error { return nil }
			require.ErrorIs(t, fence.Update(ctx, "account/42", nothing), guard.ErrStale)
			require.NoError(t, fence.Update(next, "account/42", nothing))
		})
	}
}

func deposited(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance + 10 WHERE id = 42")
	return err
}

func TestJoinRefusesAPool(t *testing.T) {
	t.Parallel()
	db := plain(t)
	fence := &stdsql.Guard{DB: db, IdleTimeout: time.Hour}
	over := bun.NewDB(db, pgdialect.New())
	conn, err := over.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	for name, tx := range map[string]stdsql.Tx{"*bun.DB": over, "bun.Conn": conn, "*sqlx.DB": sqlx.NewDb(db, "pgx"), "adopt_test.anyOfBun": anyOfBun{over}} {
		require.EqualError(t, fence.Join(t.Context(), tx, "account/42"), "stdsql: an admission needs a transaction: "+name+
			" can begin one, hand over what it began, or the *sql.Tx inside it if it is a transaction that nests others")
	}
	for _, tx := range []stdsql.Tx{bun.Tx{}, &bun.Tx{}, (*bun.Tx)(nil), &sqlx.Tx{}, (*sqlx.Tx)(nil)} {
		require.EqualError(t, fence.Join(t.Context(), tx, "account/42"), "stdsql: an admission needs a transaction, not nil", "%T", tx)
	}
}

// ent writes several statements in a transaction of its own, which is here the guard's.
func TestEntInTheGuardsTransaction(t *testing.T) {
	t.Parallel()
	db := plain(t)
	fence := &stdsql.Guard{DB: db, IdleTimeout: time.Hour}
	ctx, err := fence.Mint(t.Context(), "account/42", "a")
	require.NoError(t, err)
	undone := errors.New("undone")
	require.Equal(t, undone, fence.Update(ctx, "account/42", func(tx *sql.Tx) error {
		over := adopt.Inside(tx)
		own, err := over.Tx(ctx)
		require.NoError(t, err)
		require.NoError(t, own.Exec(ctx, "UPDATE accounts SET balance = balance + 10", []any{}, nil))
		require.NoError(t, own.Commit())
		_, err = over.(interface {
			BeginTx(context.Context, *entsql.TxOptions) (dialect.Tx, error)
		}).BeginTx(ctx, nil)
		require.ErrorContains(t, err, "the transaction is the guard's")
		require.NoError(t, over.Close())
		require.NoError(t, deposited(ctx, tx), "the guard's transaction stays open")
		return undone
	}))
	balance, err := balanceOf(ctx, db)
	require.NoError(t, err)
	require.Equal(t, int64(100), balance, "ent's write was part of the transaction")
}
