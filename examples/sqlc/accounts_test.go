package sqlc_test

import (
	"context"
	_ "embed"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/internal/bank"
	"github.com/fencepost/fencepost/examples/sqlc"
	"github.com/fencepost/fencepost/examples/sqlc/db"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

//go:embed schema.sql
var schema string

// opening is the initial balance of account 42.
const opening = 1_000_000

func open(t *testing.T) *pgxpool.Pool {
	t.Helper()
	return bank.Pool(t, fmt.Sprintf("%s; INSERT INTO accounts (id, balance) VALUES (42, %d)", schema, opening))
}

// spend takes amount from account 42 under the token of ctx.
type spend func(ctx context.Context, amount int64) error

// ways are the ways to spend, by the account's own methods.
func ways(accounts *sqlc.Accounts) map[string]spend {
	return map[string]spend{
		"WithTx in Update": func(ctx context.Context, amount int64) error { return accounts.Withdraw(ctx, 42, amount) },
		"On": func(ctx context.Context, amount int64) error {
			balance, err := accounts.Balance(ctx, 42)
			if err != nil {
				return err
			}
			return accounts.SetBalance(ctx, 42, balance-amount)
		},
	}
}

// unguarded uses the same queries over the pool.
func unguarded(pool *pgxpool.Pool) spend {
	return func(ctx context.Context, amount int64) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			q := db.New(pool).WithTx(tx)
			balance, err := q.Balance(ctx, 42)
			if err != nil {
				return err
			}
			return q.SetBalance(ctx, db.SetBalanceParams{ID: 42, Balance: balance - amount})
		})
	}
}

// overtake lets a holder spend, then its successor, then the first holder again after a
// pause. It returns what the first holder got, and whether the balance is the successor's.
func overtake(t *testing.T, accounts *sqlc.Accounts, spend spend) (kept bool, late error) {
	t.Helper()
	hold := func(number int64) context.Context {
		tok := token.Token{Resource: "account/42", Number: number, Holder: fmt.Sprint("h", number)}
		require.NoError(t, accounts.Claim(t.Context(), tok))
		return token.NewContext(t.Context(), tok)
	}
	balance := func() int64 {
		balance, err := accounts.Balance(t.Context(), 42)
		require.NoError(t, err)
		return balance
	}
	paused := hold(33)
	require.NoError(t, spend(paused, 10))
	require.NoError(t, spend(hold(34), 20))
	left := balance()
	late = spend(paused, 40)
	return balance() == left, late
}

func TestALateWriterIsRefused(t *testing.T) {
	t.Parallel()
	for name := range ways(nil) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			accounts := sqlc.New(open(t))
			kept, late := overtake(t, accounts, ways(accounts)[name])
			require.ErrorIs(t, late, guard.ErrStale)
			require.True(t, kept)
			entries, err := accounts.Entries(t.Context(), 42)
			require.NoError(t, err)
			require.NotContains(t, entries, int64(-40))
		})
	}
	t.Run("the same queries over the pool accept the write", func(t *testing.T) {
		t.Parallel()
		pool := open(t)
		kept, late := overtake(t, sqlc.New(pool), unguarded(pool))
		require.NoError(t, late)
		require.False(t, kept)
	})
}

func TestItSurvivesThePause(t *testing.T) {
	t.Parallel()
	accounts := sqlc.New(open(t))
	for name, spend := range ways(accounts) {
		t.Run(name, func(t *testing.T) {
			simulations.Run(t, simulations.Subject{
				Issuer: new(memtoken.Issuer), Resource: "account/42", Claim: accounts.Claim,
				Do: func(ctx context.Context) error { return spend(ctx, 1) },
				Count: func(ctx context.Context) (int, error) {
					balance, err := accounts.Balance(ctx, 42)
					return opening - int(balance), err
				},
			})
		})
	}
}
