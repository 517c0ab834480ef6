package sqlguard_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/pgxpoint"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token/redistoken"
)

// The loop of the example applies a unit once, whatever happens to its holders.
func TestStressTheLoopOfTheExampleAppliesAUnitOnce(t *testing.T) {
	t.Parallel()
	given, schema := testenv.Postgres(t)
	config := given.Config().Copy()
	config.ConnConfig.Tracer, config.MaxConns = pgxpoint.Tracer{}, 10
	config.ConnConfig.RuntimeParams["search_path"] = schema
	traced, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(traced.Close)
	_, err = traced.Exec(t.Context(), "CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL); INSERT INTO accounts VALUES (42, 0)")
	require.NoError(t, err)
	client, prefix := testenv.Redis(t)
	fence := &sqlguard.Guard{DB: traced, Schema: schema}
	locks := &lock.Locker{Issuer: &redistoken.Issuer{Client: client, Prefix: prefix}, Claim: fence.Admit}
	simulations.Run(t, simulations.Subject{
		Issuer: locks.Issuer, Resource: "account/42", Holds: true,
		DoOnce: func(ctx context.Context, key string) error {
			_, err := withdrawOnce(ctx, locks, fence, key, 1)
			return err
		},
		Count: func(ctx context.Context) (n int, err error) {
			err = traced.QueryRow(ctx, "SELECT -balance FROM accounts WHERE id = 42").Scan(&n)
			return n, err
		},
		Budget: 200 * time.Millisecond,
	})
}
