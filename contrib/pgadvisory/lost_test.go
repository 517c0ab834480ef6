package pgadvisory_test

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
)

// The holder gets no notice: only the guard keeps its writes apart from its successor's.
func TestLockOfAKilledSessionIsHandedOn(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := issuer(t, pool, schema)
	first, err := iss.Acquire(t.Context(), resource, "a", long)
	require.NoError(t, err)
	waiting := enqueue(t, iss, "b", long)
	page, err := os.ReadFile("../../docs/locks.md")
	require.NoError(t, err)
	statements := regexp.MustCompile("SELECT (holder FROM fencepost.advisory|pg_terminate_backend)[^`]*").FindAllString(string(page), -1)
	require.Len(t, statements, 2)
	for i, sql := range statements {
		statements[i] = strings.NewReplacer("fencepost.", schema+".", `\|`, "|").Replace(sql)
	}
	require.Equal(t, "a", pgtest.Query[string](t, pool, statements[0]))
	require.True(t, pgtest.Query[bool](t, pool, statements[1]))
	b := <-waiting
	require.NoError(t, b.Err)
	require.True(t, time.Now().Before(first.Until), "the first holder's lease looks alive")
	var marks guard.Memory
	require.NoError(t, marks.Admit(t.Context(), b.Grant.Token))
	require.ErrorIs(t, marks.Admit(t.Context(), first.Token), guard.ErrStale)

	_, err = iss.Renew(t.Context(), first.Token, long)
	require.ErrorIs(t, err, token.ErrLost)
	require.ErrorContains(t, err, "57P01")
	require.ErrorIs(t, iss.Release(t.Context(), first.Token), token.ErrLost)
	_, err = iss.Renew(t.Context(), b.Grant.Token, long)
	require.NoError(t, err)
	require.NoError(t, iss.Release(t.Context(), b.Grant.Token))
}

// When the lease has ended it is lost, whether the timer or the renewal comes first.
func TestLeaseRenewedTooLateIsLost(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := issuer(t, pool, schema)
	for i := range 10 {
		// Each lease has its own resource: the server ends a session later than its
		// client does.
		grant, err := iss.Acquire(t.Context(), fmt.Sprint("account/", i), "holder", 5*time.Millisecond)
		require.NoError(t, err)
		for time.Now().Before(grant.Until) {
			runtime.Gosched()
		}
		_, err = iss.Renew(t.Context(), grant.Token, long)
		require.ErrorIs(t, err, token.ErrLost)
	}
}

// hazard L1
func TestLockOfAVanishedClientEndsAfterUntil(t *testing.T) {
	t.Parallel()
	const ttl = 300 * time.Millisecond
	pool, schema := testenv.Postgres(t)
	w, far := wired(t)
	iss := issuer(t, far, schema)
	naive, err := far.Acquire(t.Context())
	require.NoError(t, err)
	defer naive.Release()
	const try = "SELECT pg_try_advisory_lock(9652, $1)"
	key := int32(time.Now().UnixNano())
	require.True(t, pgtest.Query[bool](t, naive, try, key))
	grant, err := iss.Acquire(t.Context(), resource, "a", ttl)
	require.NoError(t, err)
	w.vanish()

	b := awaited(t, issuer(t, pool, schema), "b")
	require.False(t, time.Now().Before(grant.Until), "not before the holder has given up")
	require.Greater(t, b.Number, grant.Token.Number)
	require.False(t, pgtest.Query[bool](t, pool, try, key), "a session without a timeout must keep its lock")
}

func TestConnectionIsGivenBackAtUntil(t *testing.T) {
	t.Parallel()
	_, schema := testenv.Postgres(t)
	single := pgtest.Connect(t, pgtest.One)
	iss := issuer(t, single, schema)
	grant, err := iss.Acquire(t.Context(), resource, "a", 100*time.Millisecond)
	require.NoError(t, err)
	b := awaited(t, iss, "b") // on the pool's only connection, which was never released
	require.False(t, time.Now().Before(grant.Until))
	require.NoError(t, iss.Release(t.Context(), b))
}

func TestClose(t *testing.T) {
	t.Parallel()
	_, schema := testenv.Postgres(t)
	pool := pgtest.Connect(t, func(*pgxpool.Config) {})
	iss := issuer(t, pool, schema)
	tok := pgtest.Acquire(t, iss, "a")
	require.NoError(t, iss.Close())
	_, err := iss.Renew(t.Context(), tok, long)
	require.ErrorIs(t, err, token.ErrLost)
	_, err = iss.Acquire(t.Context(), resource, "b", long)
	require.EqualError(t, err, "pgadvisory: acquire account/42: Issuer is closed")
	pgtest.Cycle(t, issuer(t, pool, schema), "c")
}

// hazard P7
func TestConnectionInDoubtIsDestroyed(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	single := pgtest.Connect(t, pgtest.One)
	iss := issuer(t, single, schema)
	key := advisoryKey(schema)
	tok := pgtest.Acquire(t, iss, "a")
	require.False(t, pgtest.Query[bool](t, pool, tryLock+key, resource), "it is locked for others")

	pgtest.Exec(t, pool, "ALTER FUNCTION "+pgtest.In(schema, "advisory_release")+" RENAME TO gone")
	err := iss.Release(t.Context(), tok)
	require.ErrorContains(t, err, "pgadvisory: release account/42#")
	require.NotErrorIs(t, err, token.ErrLost)
	pgtest.Exec(t, pool, "ALTER FUNCTION "+pgtest.In(schema, "gone")+" RENAME TO advisory_release")
	require.Zero(t, pgtest.Query[int](t, single, "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'"),
		"the next caller that takes the connection has no lock with it")
	require.Greater(t, pgtest.Cycle(t, iss, "b").Number, tok.Number)

	t.Run("returned to the pool it lets the next one in", func(t *testing.T) {
		naive, err := single.Acquire(t.Context())
		require.NoError(t, err)
		require.True(t, pgtest.Query[bool](t, naive, tryLock+key, resource))
		_, err = naive.Exec(t.Context(), "SELECT "+pgtest.In(schema, "gone")+"()") // the failed release
		require.Error(t, err)
		naive.Release()
		require.False(t, pgtest.Query[bool](t, pool, tryLock+key, resource), "it is locked for others still")
		require.True(t, pgtest.Query[bool](t, single, tryLock+key, resource), "the next one must be let into the lock")
		pgtest.Exec(t, single, "SELECT pg_advisory_unlock_all()")
	})
}

// hazard P7
func TestSessionIsNotReentered(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	take := func(holder string) error {
		_, err := conn.Exec(t.Context(), "SELECT "+pgtest.In(schema, "advisory_acquire")+"($1, $2, 60000, pg_backend_pid())", resource, holder)
		return err
	}
	require.NoError(t, take("a"))
	var server *pgconn.PgError
	require.ErrorAs(t, take("b"), &server)
	require.Equal(t, "55000", server.Code)
	require.Equal(t, "fencepost: this session has a lock already", server.Message)
	require.True(t, pgtest.Query[bool](t, conn, tryLock+advisoryKey(schema), resource), "PostgreSQL itself must let it in")
	pgtest.Exec(t, conn, "SELECT pg_advisory_unlock_all()")
	pgtest.Exec(t, conn, "DISCARD PLANS")
	_, err = conn.Exec(t.Context(), "RESET ALL") // as DISCARD ALL does
	require.NoError(t, err)
	require.NoError(t, take("b"))
	require.True(t, pgtest.Query[bool](t, conn, "SELECT "+pgtest.In(schema, "advisory_release")+"($1, 'b')", resource))
}

// hazard P8
func TestPoolerIsRefused(t *testing.T) {
	t.Parallel()
	direct, schema := testenv.Postgres(t)
	through := pgtest.Pool(t, testenv.PgBouncer(t), func(config *pgxpool.Config) {
		config.MaxConns, config.ConnConfig.DefaultQueryExecMode = 12, pgx.QueryExecModeExec
	})
	iss := issuer(t, through, schema)
	key := advisoryKey(schema)
	for _, call := range []func() error{
		func() error { _, err := iss.Acquire(t.Context(), resource, "a", long); return err },
		func() error { _, err := iss.Wait(t.Context(), resource, "a", long); return err },
	} {
		err := call()
		require.ErrorContains(t, err, "fencepost: a pooler is in between: the client was told of process ")
		require.NotErrorIs(t, err, token.ErrHeld)
	}
	require.True(t, pgtest.Query[bool](t, direct, tryLock+key, resource), "nothing was taken")
	pgtest.Exec(t, direct, "SELECT pg_advisory_unlock_all()")

	t.Run("the session behind it has the lock for all its clients", func(t *testing.T) {
		first, err := through.Acquire(t.Context())
		require.NoError(t, err)
		defer first.Release()
		second, err := through.Acquire(t.Context())
		require.NoError(t, err)
		defer second.Release()
		require.True(t, pgtest.Query[bool](t, first, tryLock+key, "other"))
		require.True(t, pgtest.Query[bool](t, second, tryLock+key, "other"), "two clients must have it at once")
	})
}
