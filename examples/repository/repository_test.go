package repository_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/internal/bank"
	after "github.com/fencepost/fencepost/examples/repository/after"
	before "github.com/fencepost/fencepost/examples/repository/before"
	rows "github.com/fencepost/fencepost/examples/repository/rows"
	"github.com/fencepost/fencepost/token"
)

// repository is the interface of all three: the signatures are the same.
type repository interface {
	Balance(ctx context.Context, id int64) (int64, error)
	SetBalance(ctx context.Context, id, balance int64) error
	Withdraw(ctx context.Context, id, amount int64) error
}

type claimer interface {
	Claim(ctx context.Context, tok token.Token) error
}

var guarded = map[string]func(*pgxpool.Pool) repository{
	"after": func(pool *pgxpool.Pool) repository { return after.New(pool) },
	"rows":  func(pool *pgxpool.Pool) repository { return rows.New(pool) },
}

// spends are the ways to spend.
var spends = map[string]func(ctx context.Context, r repository, amount int64) error{
	"Withdraw": func(ctx context.Context, r repository, amount int64) error { return r.Withdraw(ctx, 42, amount) },
	"Balance, then SetBalance": func(ctx context.Context, r repository, amount int64) error {
		balance, err := r.Balance(ctx, 42)
		if err != nil {
			return err
		}
		return r.SetBalance(ctx, 42, balance-amount)
	},
}

func code(r repository, spend string) bank.Code {
	c := bank.Code{
		Claim:   func(context.Context, token.Token) error { return nil },
		Balance: func(ctx context.Context) (int64, error) { return r.Balance(ctx, 42) },
		Spend:   func(ctx context.Context, amount int64) error { return spends[spend](ctx, r, amount) },
	}
	if r, ok := r.(claimer); ok {
		c.Claim = r.Claim
	}
	return c
}

func open(t *testing.T) *pgxpool.Pool {
	pool := bank.Pool(t, "")
	_, err := pool.Exec(t.Context(), "SELECT fencepost.add_mark_columns('accounts')")
	require.NoError(t, err)
	return pool
}

func TestALateWriter(t *testing.T) {
	t.Parallel()
	for spend := range spends {
		t.Run("it is accepted in before, by "+spend, func(t *testing.T) {
			t.Parallel()
			code(before.New(open(t)), spend).Corrupted(t)
		})
		for name, repo := range guarded {
			t.Run("it is refused in "+name+", by "+spend, func(t *testing.T) {
				t.Parallel()
				code(repo(open(t)), spend).Refused(t)
			})
		}
	}
}

func TestItSurvivesThePause(t *testing.T) {
	t.Parallel()
	for spend := range spends {
		for name, repo := range guarded {
			t.Run(name+", by "+spend, func(t *testing.T) {
				t.Parallel()
				code(repo(open(t)), spend).Survives(t)
			})
		}
	}
}
