package stdsql_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

// hazard G8
func TestMySQLAnIdleHolderIsEnded(t *testing.T) {
	t.Parallel()
	db := newMySQL(t)
	db.claim(t, tok(33, "a"))
	older, newer := holding(t, 33, "a"), holding(t, 34, "b")
	g := db.guard()
	g.Idle = time.Nanosecond // rounded up
	gone := func(id int) func() bool {
		return func() bool {
			var n int
			err := db.QueryRowContext(older, "SELECT count(*) FROM information_schema.processlist WHERE id = ?", id).Scan(&n)
			return err == nil && n == 0
		}
	}
	asleep := func(then func(tx *sql.Tx) error) func(tx *sql.Tx) error {
		return func(tx *sql.Tx) error {
			require.NoError(t, write(older, tx, 0))
			require.Eventually(t, gone(one[int](t, tx, "SELECT CONNECTION_ID()")), time.Minute, 10*time.Millisecond)
			return then(tx)
		}
	}
	err := g.Update(older, account, asleep(func(tx *sql.Tx) error { return write(older, tx, 0) }))
	require.ErrorIs(t, err, guard.ErrEvicted)
	err = g.Update(older, account, asleep(func(*sql.Tx) error { return nil }))
	require.ErrorIs(t, err, guard.ErrEvicted, "found out before COMMIT was sent")
	require.NotErrorIs(t, err, guard.ErrUnknown)
	require.Equal(t, 100, balance(t, db))

	err = g.Update(older, account, func(tx *sql.Tx) error {
		require.NoError(t, write(older, tx, 0))
		require.NoError(t, db.guard().Update(newer, account, add(newer, 10)), "the successor waits until the sleeper is ended")
		return write(older, tx, 0)
	})
	require.ErrorIs(t, err, guard.ErrEvicted)
	require.Equal(t, 110, balance(t, db))

	unbounded := db.guard()
	unbounded.Idle = -1
	impatient := db.over(connect(t, "mysql", db.dsn+"?innodb_lock_wait_timeout=2"))
	require.NoError(t, unbounded.Update(newer, account, func(tx *sql.Tx) error {
		require.ErrorIs(t, impatient.Admit(t.Context(), tok(35, "c")), guard.ErrRetryable, "the twin must keep its successor waiting")
		return nil
	}))
}

func TestMySQLIdleBound(t *testing.T) {
	t.Parallel()
	db := newMySQL(t)
	db.claim(t, tok(33, "a"))
	for _, c := range []struct {
		idle           time.Duration
		before, inside int
	}{
		{0, 28800, 5}, {0, 3, 3}, {time.Minute, 5400, 60}, {20*time.Second + time.Microsecond, 28800, 21}, {-1, 7200, 7200}, {1 << 62, 7200, 7200},
	} {
		pool := connect(t, "mysql", fmt.Sprint(db.dsn, "?wait_timeout=", c.before))
		pool.SetMaxOpenConns(1)
		g, ctx := db.over(pool), holding(t, 33, "a")
		g.Idle = c.idle
		const show = "SELECT @@SESSION.wait_timeout"
		session := one[int](t, pool, "SELECT CONNECTION_ID()")
		for name, attempt := range map[string]func(){
			"applied": func() {
				require.NoError(t, g.Update(ctx, account, func(tx *sql.Tx) error {
					require.Equal(t, c.inside, one[int](t, tx, show))
					return nil
				}))
			},
			"failed": func() {
				require.Error(t, g.Update(ctx, account, func(*sql.Tx) error { return sql.ErrNoRows }))
			},
			"refused": func() {
				zombie := holding(t, 32, "a")
				require.ErrorIs(t, g.Update(zombie, account, add(zombie, 1)), guard.ErrStale)
			},
			"claimed": func() { require.NoError(t, g.Admit(ctx, tok(33, "a"))) },
			"panicking": func() {
				require.Panics(t, func() { _ = g.Update(ctx, account, func(*sql.Tx) error { panic("oops") }) })
			},
		} {
			attempt()
			require.Equal(t, c.before, one[int](t, pool, show), "%s: it ends with the transaction", name)
			require.Equal(t, session, one[int](t, pool, "SELECT CONNECTION_ID()"), "%s: on the same connection", name)
		}
	}
}
