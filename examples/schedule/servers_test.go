package schedule_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/internal/bank"
	"github.com/fencepost/fencepost/examples/schedule"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token/redistoken"
)

func report(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "INSERT INTO reports DEFAULT VALUES")
	return err
}

func reports(t *testing.T, pool *pgxpool.Pool) (n int) {
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM reports").Scan(&n))
	return n
}

func servers(t *testing.T, atLeast time.Duration) (*pgxpool.Pool, *lock.Locker) {
	pool := bank.Pool(t, schedule.Schema+"; CREATE TABLE reports (at timestamptz NOT NULL DEFAULT now())")
	client, prefix := testenv.Redis(t)
	return pool, &lock.Locker{
		Issuer: &redistoken.Issuer{Client: client, Prefix: prefix}, Claim: (&sqlguard.Guard{DB: pool}).Admit,
		HoldAtLeast: atLeast, NoWait: true, TTL: time.Hour, // no lease is lost on a slow machine
	}
}
