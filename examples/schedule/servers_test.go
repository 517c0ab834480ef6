package schedule_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/schedule"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
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

func servers(t *testing.T, atLeast time.Duration) (*pgxpool.Pool, *token.Locker) {
	pool, err := pgxpool.New(t.Context(), testenv.Database(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	require.NoError(t, migrations.Up(t.Context(), db))
	_, err = pool.Exec(t.Context(), schedule.Schema+"; CREATE TABLE reports (at timestamptz NOT NULL DEFAULT now())")
	require.NoError(t, err)
	client, prefix := testenv.Redis(t)
	issuer := &redistoken.Issuer{Client: client, Prefix: prefix}
	return pool, &token.Locker{Issuer: issuer, Claim: (&sqlguard.Guard{DB: pool}).Admit, AtLeast: atLeast}
}
