package adopt_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/fencepost/fencepost/examples/adopt"
	"github.com/fencepost/fencepost/examples/internal/bank"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

type work = func(pgx.Tx) error

// TestEachLockIsFenced calls the page's functions from many goroutines. Each acquisition
// is admitted after the previous one, and a caller with an older number is refused. The
// pause itself is in paused_test.go.
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
			// More callers than the pool has connections: callers that wait must not take
			// all connections from the holder.
			callers := int(pool.Config().MaxConns) + 2
			var group errgroup.Group
			for range callers {
				group.Go(func() error { return patiently(t.Context(), hold, deposit(t, 10)) })
			}
			require.NoError(t, group.Wait())
			var balance int
			require.NoError(t, pool.QueryRow(t.Context(), "SELECT balance FROM accounts WHERE id = 42").Scan(&balance))
			require.Equal(t, 100+10*callers, balance)
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
	_, err = pool.Exec(ctx, "UPDATE jobs SET due = now()") // as if worker-1 had not written for a minute
	require.NoError(t, err)
	again, job, err := adopt.SkipLocked(ctx, pool, "worker-2")
	require.NoError(t, err)
	require.Equal(t, id, again)

	// The naive twin commits nothing.
	tx, err := pool.Begin(ctx)
	require.NoError(t, err)
	tag, err := tx.Exec(ctx, "UPDATE jobs SET state = 'done' WHERE id = $1 AND state = 'running'", id)
	require.NoError(t, err)
	require.EqualValues(t, 1, tag.RowsAffected(), "the state does not tell the late worker from its successor")
	require.NoError(t, tx.Rollback(ctx))

	require.ErrorIs(t, adopt.Done(late, pool, id), guard.ErrStale)
	require.NoError(t, adopt.Done(job, pool, id))
}

// patiently calls hold again if the lock does not wait by itself, or if a slow machine
// let the lock expire or the holder's session end: nothing was applied then.
func patiently(ctx context.Context, hold func(context.Context, work) error, w work) error {
	for {
		err := hold(ctx, w)
		if !errors.Is(err, redislock.ErrNotObtained) && !errors.Is(err, guard.ErrStale) && !errors.Is(err, guard.ErrEvicted) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
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
		return adopt.Redsync(ctx, locks.NewMutex(prefix+"account/42", redsync.WithTries(10_000)), &sqlguard.Guard{DB: pool}, "account/42",
			func(_ context.Context, tx pgx.Tx) error { return w(tx) })
	}
}

func withRedislock(t *testing.T, pool *pgxpool.Pool) func(context.Context, work) error {
	locks := redislock.New(testenv.OwnRedis(t).Client()) // the example has a fixed key
	return func(ctx context.Context, w work) error { return adopt.Redislock(ctx, locks, pool, w) }
}

func withAdvisory(_ *testing.T, pool *pgxpool.Pool) func(context.Context, work) error {
	return func(ctx context.Context, w work) error { return adopt.Advisory(ctx, pool, w) }
}

func withNoLock(_ *testing.T, pool *pgxpool.Pool) func(context.Context, work) error {
	return adopt.NoLock(pool)
}

// database returns a pool on a database for this test only.
func database(t *testing.T) *pgxpool.Pool {
	t.Helper()
	return bank.Pool(t, tables)
}

const tables = `CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL);
	INSERT INTO accounts VALUES (42, 100);
	CREATE TABLE jobs (id bigint PRIMARY KEY, state text NOT NULL DEFAULT 'queued', due timestamptz NOT NULL DEFAULT now());
	INSERT INTO jobs VALUES (1)`
