package adopt_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/adopt"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

type work = func(pgx.Tx) error

// TestEachLockIsFenced runs the functions of the page twice each: the second
// acquisition is admitted after the first, and whoever comes with an older
// number than theirs is refused. The pause itself is in paused_test.go.
func TestEachLockIsFenced(t *testing.T) {
	t.Parallel()
	locks := map[string]func(t *testing.T, pool *pgxpool.Pool) func(context.Context, work) error{
		"redsync":   withRedsync,
		"redislock": withRedislock,
		"advisory":  withAdvisory,
		"no lock":   withNoLock,
	}
	for name, open := range locks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := database(t)
			hold := open(t, pool)
			require.NoError(t, hold(t.Context(), deposit(t, 10)))
			require.NoError(t, hold(t.Context(), deposit(t, 10)))
			var balance int
			require.NoError(t, pool.QueryRow(t.Context(), "SELECT balance FROM accounts WHERE id = 42").Scan(&balance))
			require.Equal(t, 120, balance)
			older := token.NewContext(t.Context(), token.Token{Resource: "account/42", Number: 7, Holder: "zombie"})
			require.ErrorIs(t, sqlguard.Update(older, pool, "account/42", deposit(t, 10)), guard.ErrStale)
		})
	}
}

func TestLateCompletionOfAJobIsRefused(t *testing.T) {
	t.Parallel()
	pool, ctx := database(t), t.Context()
	id, late, err := adopt.SkipLocked(ctx, pool, "worker-1")
	require.NoError(t, err)
	_, err = pool.Exec(ctx, "UPDATE jobs SET due = now()") // worker-1 is silent for a minute
	require.NoError(t, err)
	again, tok, err := adopt.SkipLocked(ctx, pool, "worker-2")
	require.NoError(t, err)
	require.Equal(t, id, again)

	require.ErrorIs(t, adopt.Done(ctx, pool, id, late), guard.ErrStale)
	require.NoError(t, adopt.Done(ctx, pool, id, tok))
}

func deposit(t *testing.T, amount int) work {
	return func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "UPDATE accounts SET balance = balance + $1 WHERE id = 42", amount)
		return err
	}
}

func withRedsync(t *testing.T, pool *pgxpool.Pool) func(context.Context, work) error {
	client, prefix := testenv.Redis(t)
	locks := redsync.New(goredis.NewPool(client))
	return func(ctx context.Context, w work) error {
		return adopt.Redsync(ctx, locks.NewMutex(prefix+"account/42"), pool, w)
	}
}

func withRedislock(t *testing.T, pool *pgxpool.Pool) func(context.Context, work) error {
	client, _ := testenv.Redis(t)
	locks := redislock.New(client)
	return func(ctx context.Context, w work) error { return adopt.Redislock(ctx, locks, pool, w) }
}

func withAdvisory(_ *testing.T, pool *pgxpool.Pool) func(context.Context, work) error {
	return func(ctx context.Context, w work) error { return adopt.Advisory(ctx, pool, "worker-1", w) }
}

func withNoLock(_ *testing.T, pool *pgxpool.Pool) func(context.Context, work) error {
	return func(ctx context.Context, w work) error { return adopt.NoLock(ctx, pool, w) }
}

// database returns a pool on a database of this test alone: the examples use
// the default schema, as a program would.
func database(t *testing.T) *pgxpool.Pool {
	name := fmt.Sprintf("adopt_%d", time.Now().UnixNano())
	url := testenv.PostgresURL(t)
	admin, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	_, err = admin.Exec(t.Context(), "CREATE DATABASE "+name)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := admin.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)")
		require.NoError(t, err)
		require.NoError(t, admin.Close(context.Background()))
	})
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	config.ConnConfig.Database = name
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	require.NoError(t, migrations.Up(t.Context(), stdlib.OpenDBFromPool(pool)))
	_, err = pool.Exec(t.Context(), tables)
	require.NoError(t, err)
	return pool
}

const tables = `CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL);
	INSERT INTO accounts VALUES (42, 100);
	CREATE TABLE jobs (id bigint PRIMARY KEY, state text NOT NULL DEFAULT 'queued', due timestamptz NOT NULL DEFAULT now());
	INSERT INTO jobs VALUES (1)`
