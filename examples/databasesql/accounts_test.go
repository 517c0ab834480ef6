package databasesql_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/fencepost/fencepost/examples/databasesql"
	"github.com/fencepost/fencepost/examples/internal/bank"
)

// codes are the two ways to write: in a transaction of the guard's and in one of the
// caller's.
func codes(db *sql.DB) map[string]bank.Code {
	accounts := databasesql.New(db)
	code := bank.Code{Claim: accounts.Claim, Balance: func(ctx context.Context) (int64, error) { return accounts.Balance(ctx, 42) }}
	update, join := code, code
	update.Spend = func(ctx context.Context, amount int64) error { return accounts.Withdraw(ctx, 42, amount) }
	join.Spend = func(ctx context.Context, amount int64) error {
		return inTx(ctx, db, func(tx *sql.Tx) error { return accounts.WithdrawIn(ctx, tx, 42, amount) })
	}
	return map[string]bank.Code{"Update": update, "Join": join}
}

// inTx is a typical helper of programs: it begins the transaction and ends it.
func inTx(ctx context.Context, db *sql.DB, fn func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func TestALateWriterIsRefused(t *testing.T) {
	t.Parallel()
	for name := range codes(nil) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			codes(bank.DB(t))[name].Refused(t)
		})
	}
	t.Run("the same transaction without Join accepts the write", func(t *testing.T) {
		t.Parallel()
		db := bank.DB(t)
		code := codes(db)["Join"]
		code.Spend = func(ctx context.Context, amount int64) error {
			return inTx(ctx, db, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - $1 WHERE id = 42", amount)
				return err
			})
		}
		code.Corrupted(t)
	})
}

func TestItSurvivesThePause(t *testing.T) {
	t.Parallel()
	for name, code := range codes(bank.DB(t)) {
		t.Run(name, code.Survives)
	}
}
