package main

import (
	"context"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/simulations"
)

func TestWithdrawalsSurviveThePause(t *testing.T) {
	app := start(t) // its pool has config.ConnConfig.Tracer = pgxpoint.Tracer{}
	simulations.Run(t, simulations.Subject{
		Issuer: app.locks.Issuer, Resource: "account/42",
		Do:    func(ctx context.Context) error { return withdraw(ctx, app.locks, app.fence, 1) },
		Holds: true, // Do takes the lock itself
		Count: app.withdrawn,
	})
}

// start starts the program on servers for tests.
func start(t *testing.T) program {
	t.Helper()
	client, prefix := testenv.Redis(t)
	return open(t, database(t), client, prefix, 200*time.Millisecond, nil, nil)
}

// withdrawn returns how much of the account's 100 is gone.
func (p program) withdrawn(ctx context.Context) (n int, err error) {
	err = p.pool.QueryRow(ctx, "SELECT 100 - balance FROM accounts WHERE id = 42").Scan(&n)
	return n, err
}
