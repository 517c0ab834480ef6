package sqlguard_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

const (
	// clients is how many share the sessions of a pooler in these tests.
	clients = 12
	// sessions is how many testenv.PgBouncer has.
	sessions = 4
)

// pooledModes are those that a pooler in transaction mode supports: they name
// no prepared statement.
var pooledModes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

// client is a pool of at most size connections to a pooler.
func client(t testing.TB, url string, mode pgx.QueryExecMode, size int32) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	config.MaxConns = size
	inMode(mode)(config)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// session is what a client finds in a session of the pooler.
type session struct {
	PID                         int
	Idle, Lock, Admitted, Synch string
	Locks                       int
}

const look = `SELECT pg_backend_pid(), current_setting('idle_in_transaction_session_timeout'), current_setting('lock_timeout'),
	coalesce(current_setting('fencepost.admitted', true), ''), current_setting('synchronous_commit'),
	(SELECT count(*)::int FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory')`

// everySession runs sql in n sessions of the pooler and returns what is in them
// then, by their processes.
func everySession(t testing.TB, url string, n int, sql string) map[int]session {
	t.Helper()
	found := map[int]session{}
	inEverySession(t, url, n, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, sql)
		require.NoError(t, err)
		rows, err := conn.Query(ctx, look)
		require.NoError(t, err)
		s, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[session])
		require.NoError(t, err)
		found[s.PID] = s
	})
	require.Len(t, found, n)
	return found
}

// inEverySession has n clients of their own begin a transaction each, so that
// they meet in no session, and commits what do has done there.
func inEverySession(t testing.TB, url string, n int, do func(ctx context.Context, conn *pgx.Conn)) {
	t.Helper()
	pool := client(t, url, pgx.QueryExecModeSimpleProtocol, int32(n))
	defer pool.Close()
	for range n {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		defer tx.Commit(t.Context())
		do(t.Context(), tx.Conn())
	}
}
