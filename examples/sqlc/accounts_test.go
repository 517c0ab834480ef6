package sqlc_test

import (
	"context"
	_ "embed"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/internal/bank"
	"github.com/fencepost/fencepost/examples/sqlc"
	"github.com/fencepost/fencepost/examples/sqlc/db"
)

//go:embed schema.sql
var schema string

// codes are the two ways to write, by an account's own methods.
func codes(accounts *sqlc.Accounts) map[string]bank.Code {
	code := bank.Code{Claim: accounts.Claim, Balance: func(ctx context.Context) (int64, error) { return accounts.Balance(ctx, 42) }}
	update, on := code, code
	update.Spend = func(ctx context.Context, amount int64) error { return accounts.Withdraw(ctx, 42, amount) }
	on.Spend = func(ctx context.Context, amount int64) error {
		balance, err := accounts.Balance(ctx, 42)
		if err != nil {
			return err
		}
		return accounts.SetBalance(ctx, 42, balance-amount)
	}
	return map[string]bank.Code{"WithTx in Update": update, "On": on}
}

func TestALateWriterIsRefused(t *testing.T) {
	t.Parallel()
	for name := range codes(nil) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			accounts := sqlc.New(bank.Pool(t, schema))
			codes(accounts)[name].Refused(t)
			entries, err := accounts.Entries(t.Context(), 42)
			require.NoError(t, err)
			require.NotContains(t, entries, int64(-40))
		})
	}
	t.Run("the same queries over the pool accept the write", func(t *testing.T) {
		t.Parallel()
		pool := bank.Pool(t, schema)
		code := codes(sqlc.New(pool))["On"]
		code.Spend = func(ctx context.Context, amount int64) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				q := db.New(pool).WithTx(tx)
				balance, err := q.Balance(ctx, 42)
				if err != nil {
					return err
				}
				return q.SetBalance(ctx, db.SetBalanceParams{ID: 42, Balance: balance - amount})
			})
		}
		code.Corrupted(t)
	})
}

func TestItSurvivesThePause(t *testing.T) {
	t.Parallel()
	for name, code := range codes(sqlc.New(bank.Pool(t, schema))) {
		t.Run(name, code.Survives)
	}
}
