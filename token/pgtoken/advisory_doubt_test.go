package pgtoken_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
)

// hazard P7
func TestAdvisoryDestroysAConnectionInDoubt(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	single := connect(t, one)
	iss := advisory(t, single, schema)
	key := advisoryKey(schema)
	tok := acquire(t, iss, "a")
	require.False(t, query[bool](t, pool, tryLock+key, resource), "it is locked for others")

	exec(t, pool, "ALTER FUNCTION "+in(schema, "advisory_release")+" RENAME TO gone")
	err := iss.Release(t.Context(), tok)
	require.ErrorContains(t, err, "pgtoken: release account/42#")
	require.NotErrorIs(t, err, token.ErrLost)
	exec(t, pool, "ALTER FUNCTION "+in(schema, "gone")+" RENAME TO advisory_release")
	require.Zero(t, query[int](t, single, "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'"),
		"who takes the connection next has no lock with it")
	require.Greater(t, cycle(t, iss, "b").Number, tok.Number)

	t.Run("returned to the pool it lets the next one in", func(t *testing.T) {
		naive, err := single.Acquire(t.Context())
		require.NoError(t, err)
		require.True(t, query[bool](t, naive, tryLock+key, resource))
		_, err = naive.Exec(t.Context(), "SELECT "+in(schema, "gone")+"()") // the failed release
		require.Error(t, err)
		naive.Release()
		require.False(t, query[bool](t, pool, tryLock+key, resource), "it is locked for others still")
		require.True(t, query[bool](t, single, tryLock+key, resource), "the next one must be let into the lock")
		exec(t, single, "SELECT pg_advisory_unlock_all()")
	})
}

// hazard P7
func TestAdvisoryIsNotReenteredBySession(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	take := func(holder string) error {
		_, err := conn.Exec(t.Context(), "SELECT "+in(schema, "advisory_acquire")+"($1, $2, 60000, pg_backend_pid())", resource, holder)
		return err
	}
	require.NoError(t, take("a"))
	var server *pgconn.PgError
	require.ErrorAs(t, take("b"), &server)
	require.Equal(t, "55000", server.Code)
	require.Equal(t, "fencepost: this session has a lock already", server.Message)
	require.True(t, query[bool](t, conn, tryLock+advisoryKey(schema), resource), "PostgreSQL itself must let it in")
	exec(t, conn, "SELECT pg_advisory_unlock_all()")
	exec(t, conn, "DISCARD PLANS")
	_, err = conn.Exec(t.Context(), "RESET ALL") // as DISCARD ALL does
	require.NoError(t, err)
	require.NoError(t, take("b"))
	require.True(t, query[bool](t, conn, "SELECT "+in(schema, "advisory_release")+"($1, 'b')", resource))
}
