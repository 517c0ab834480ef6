package process_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/pgxpoint"
	"github.com/fencepost/fencepost/simulations/process"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token/pgtoken"
)

// openWithdrawals connects to the server in conf. Each writer's process calls it.
func openWithdrawals(ctx context.Context, conf string) (simulations.Subject, func() error, error) {
	config, err := pgxpool.ParseConfig(conf)
	if err != nil {
		return simulations.Subject{}, nil, err
	}
	config.ConnConfig.Tracer = pgxpoint.Tracer{}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return simulations.Subject{}, nil, err
	}
	withdraw := func(ctx context.Context) error {
		var balance int
		if err := pool.QueryRow(ctx, "SELECT balance FROM accounts WHERE id = 42").Scan(&balance); err != nil {
			return err
		}
		return sqlguard.Update(ctx, pool, "account/42", func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE accounts SET balance = $1 WHERE id = 42", balance-1)
			return err
		})
	}
	withdrawn := func(ctx context.Context) (n int, err error) {
		err = pool.QueryRow(ctx, "SELECT 100 - balance FROM accounts WHERE id = 42").Scan(&n)
		return n, err
	}
	return simulations.Subject{
		Issuer: &pgtoken.Issuer{DB: pool}, Resource: "account/42", Do: withdraw, Count: withdrawn,
	}, func() error { pool.Close(); return nil }, nil
}

// In a test file the two functions are TestMain and TestWithdrawalsSurviveSIGSTOP.
func Example() {
	testMain := func(m *testing.M) {
		process.Serve(m, process.Subjects{"withdrawals": openWithdrawals})
		os.Exit(m.Run())
	}
	testWithdrawalsSurviveSIGSTOP := func(t *testing.T) {
		url := strings.TrimSpace(os.Getenv("DATABASE_URL"))
		process.Run(t, process.Options{Subject: "withdrawals", Conf: url, At: "begin", Nth: 2, Rounds: 10})
	}
	_, _ = testMain, testWithdrawalsSurviveSIGSTOP
}
