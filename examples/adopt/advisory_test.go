package adopt_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/adopt"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
)

const advisoryLock = "SELECT pg_advisory_lock(42)"

// session connects outside of the pool.
func session(t *testing.T, pool *pgxpool.Pool) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(t.Context()) }) // an error means only that the session has ended
	return conn
}

// advisoryLocks counts the sessions that have the lock, or that wait for it.
func advisoryLocks(t *testing.T, pool *pgxpool.Pool, granted bool) int {
	t.Helper()
	return pgtest.Query[int](t, pool, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 42 AND granted = $1
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, granted)
}

// twoHolders are the ways in which a second holder gets an advisory lock while the first
// one is paused. lock takes it, for either of them. lose ends the first one's hold, if the
// lock does not let the second one in by itself.
var twoHolders = map[string]func(t *testing.T, pool *pgxpool.Pool) (lock, lose func()){
	"the session ends": func(t *testing.T, pool *pgxpool.Pool) (lock, lose func()) {
		var last *pgx.Conn
		lock = func() {
			last = session(t, pool)
			pgtest.Exec(t, last, advisoryLock)
		}
		return lock, func() { pgtest.Exec(t, pool, "SELECT pg_terminate_backend($1)", last.PgConn().PID()) }
	},
	"the connection returns to its pool": func(t *testing.T, pool *pgxpool.Pool) (lock, lose func()) {
		locks := pgtest.Pool(t, pool.Config().ConnString(), pgtest.One)
		return func() { pgtest.Exec(t, locks, advisoryLock) }, func() {}
	},
	"a pooler gives the session to another client": func(t *testing.T, _ *pgxpool.Pool) (lock, lose func()) {
		config, err := pgx.ParseConfig(testenv.PgBouncer(t))
		require.NoError(t, err)
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
		return func() {
			client, err := pgx.ConnectConfig(t.Context(), config)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, client.Close(t.Context())) })
			pgtest.Exec(t, client, advisoryLock)
		}, func() {}
	},
}

// Both holders read 100. If they mint, the first one's late write is refused. If not, it
// overwrites the second one's.
//
// hazard P7
func TestAnAdvisoryLockWithTwoHolders(t *testing.T) {
	t.Parallel()
	for name, open := range twoHolders {
		for _, fenced := range []bool{true, false} {
			t.Run(name+map[bool]string{true: ", minted", false: ", without a fence"}[fenced], func(t *testing.T) {
				t.Parallel()
				pool := database(t)
				lock, lose := open(t, pool)
				enter := func(holder string) (write func() error) {
					lock()
					ctx := t.Context()
					if fenced {
						var err error
						ctx, err = (&sqlguard.Guard{DB: pool}).Mint(ctx, "account/42", holder)
						require.NoError(t, err)
					}
					balance := pgtest.Query[int](t, pool, "SELECT balance FROM accounts WHERE id = 42")
					set := func(tx pgx.Tx) error {
						_, err := tx.Exec(ctx, "UPDATE accounts SET balance = $1 WHERE id = 42", balance+10)
						return err
					}
					if fenced {
						return func() error { return sqlguard.Update(ctx, pool, "account/42", set) }
					}
					return func() error { return pgx.BeginFunc(ctx, pool, set) }
				}
				first := enter("first")
				lose()
				second := enter("second")
				require.NoError(t, second())
				late := first()
				require.Equal(t, 110, pgtest.Query[int](t, pool, "SELECT balance FROM accounts WHERE id = 42"))
				if fenced {
					require.ErrorIs(t, late, guard.ErrStale)
					return
				}
				require.NoError(t, late, "the twin must lose one of two deposits")
			})
		}
	}
}

// The lock ends with the call, whatever the call has returned, and no connection of the
// pool has it.
//
// hazard P7
func TestAdvisoryLeavesNoLock(t *testing.T) {
	t.Parallel()
	pool := database(t)
	require.NoError(t, adopt.Advisory(t.Context(), pool, deposit(t, 10)))
	pgtest.Await(t, func() bool { return advisoryLocks(t, pool, true) == 0 })

	pgtest.Exec(t, pool, "ALTER FUNCTION fencepost.mint(text, text, integer) RENAME TO gone")
	require.Error(t, adopt.Advisory(t.Context(), pool, deposit(t, 10)), "it has the lock, and gets no number")
	pgtest.Await(t, func() bool { return advisoryLocks(t, pool, true) == 0 })
	pgtest.Exec(t, pool, "ALTER FUNCTION fencepost.gone(text, text, integer) RENAME TO mint")
	require.NoError(t, adopt.Advisory(t.Context(), pool, deposit(t, 10)))
}

// What the page says about CREATE INDEX CONCURRENTLY: a holder has no snapshot. A waiter has
// one, so the index waits for it, and PostgreSQL ends either of them.
func TestAnAdvisoryLockAndSnapshots(t *testing.T) {
	t.Parallel()
	pool := database(t)
	holder := session(t, pool)
	pgtest.Exec(t, holder, advisoryLock)
	waited := pgtest.Later(t, func() error { return adopt.Advisory(t.Context(), pool, deposit(t, 10)) })
	pgtest.Await(t, func() bool { return advisoryLocks(t, pool, false) == 1 })
	const snapshots = `SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
		WHERE l.locktype = 'advisory' AND l.objid = 42 AND l.granted = $1 AND a.datname = current_database() AND a.backend_xmin IS NOT NULL`
	require.Zero(t, pgtest.Query[int](t, pool, snapshots, true))
	require.Equal(t, 1, pgtest.Query[int](t, pool, snapshots, false))

	_, built := holder.Exec(t.Context(), "CREATE INDEX CONCURRENTLY ON accounts (balance)")
	pgtest.Exec(t, holder, "SELECT pg_advisory_unlock(42)")
	require.ErrorContains(t, errors.Join(built, waited()), "deadlock detected")
}
