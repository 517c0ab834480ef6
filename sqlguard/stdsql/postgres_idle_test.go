package stdsql_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

const short = 200 * time.Millisecond

// hazard G8
func TestPostgresAnIdleHolderIsEnded(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	g, ctx := db.guard(), holding(t, 33, "a")
	g.Idle = short
	err := g.Update(ctx, account, func(tx *sql.Tx) error {
		pid := one[int](t, tx, "SELECT pg_backend_pid()")
		require.Eventually(t, func() bool {
			var n int
			err := db.QueryRowContext(ctx, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid).Scan(&n)
			return err == nil && n == 0
		}, time.Minute, 5*time.Millisecond)
		return write(ctx, tx, 0)
	})
	require.ErrorIs(t, err, guard.ErrEvicted)
	require.Equal(t, 100, balance(t, db))

	err = g.Update(ctx, account, func(tx *sql.Tx) error {
		require.NoError(t, write(ctx, tx, 0))
		time.Sleep(3 * short)
		return nil
	})
	require.ErrorIs(t, err, guard.ErrEvicted)
	require.NotErrorIs(t, err, guard.ErrUnknown)
	require.Equal(t, 100, balance(t, db))

	err = db.update(ctx, func(tx *sql.Tx) error {
		require.NoError(t, write(ctx, tx, 0))
		pid := one[int](t, tx, "SELECT pg_backend_pid()")
		time.Sleep(short)
		_, err := db.ExecContext(ctx, "SELECT pg_terminate_backend($1)", pid) // as a successor does
		return err
	})
	require.ErrorIs(t, err, guard.ErrEvicted, "found out before COMMIT was sent")
	require.NotErrorIs(t, err, guard.ErrUnknown)
	require.Equal(t, 100, balance(t, db))
}

func TestPostgresIdleBound(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	for _, c := range []struct {
		idle           time.Duration
		before, inside string
	}{
		{0, "0", "5s"}, {0, "1min", "5s"}, {0, "3s", "3s"}, {time.Minute, "90min", "1min"},
		{20*time.Second + time.Microsecond, "0", "20001ms"}, {-1, "2h", "2h"}, {1 << 62, "2h", "2h"},
	} {
		pool := connect(t, "pgx", db.setting(t, "idle_in_transaction_session_timeout", c.before))
		pool.SetMaxOpenConns(1)
		g, ctx := db.over(pool), holding(t, 33, "a")
		g.Idle = c.idle
		const show = "SHOW idle_in_transaction_session_timeout"
		require.NoError(t, g.Update(ctx, account, func(tx *sql.Tx) error {
			require.Equal(t, c.inside, one[string](t, tx, show))
			return nil
		}))
		require.Equal(t, c.before, one[string](t, pool, show), "it ends with the transaction")
	}
}
