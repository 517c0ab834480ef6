package pgtoken_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

// clients is how many clients share the four sessions of a pooler.
const clients = 12

// pooled returns a pool with at most clients connections to a pooler.
func pooled(t *testing.T, url string, mode pgx.QueryExecMode) *pgxpool.Pool {
	t.Helper()
	return pgtest.Pool(t, url, func(config *pgxpool.Config) {
		config.MaxConns, config.ConnConfig.DefaultQueryExecMode = clients, mode
	})
}

// hazard P8
func TestBehindAPooler(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run("one holder at a time, and numbers that rise, in mode "+mode.String(), func(t *testing.T) {
			t.Parallel()
			_, schema := testenv.Postgres(t)
			url := testenv.PgBouncer(t)
			iss := &pgtoken.Issuer{DB: pooled(t, url, mode), Schema: schema}
			var inside atomic.Int32
			var last int64 // the last holder's number
			var group sync.WaitGroup
			for c := range clients {
				group.Go(func() {
					for turn := 0; turn < 3 && !t.Failed(); {
						grant, err := iss.Acquire(t.Context(), resource, fmt.Sprintf("%d/%d", c, turn), long)
						if errors.Is(err, token.ErrHeld) {
							continue
						}
						if err != nil || inside.Add(1) != 1 || grant.Token.Number <= last {
							t.Errorf("acquire: %v after #%d, %d holders: %v", grant.Token, last, inside.Load(), err)
							return
						}
						last = grant.Token.Number
						_, renewed := iss.Renew(t.Context(), grant.Token, long)
						inside.Add(-1)
						if err := errors.Join(renewed, iss.Release(t.Context(), grant.Token)); err != nil {
							t.Error(err)
							return
						}
						turn++
					}
				})
			}
			group.Wait()
			require.NotZero(t, last)
			everyVerb(t, iss, func(_ string, call func()) { call() })
		})
	}
}

// hazard P8
func TestNamedStatementsBehindAPooler(t *testing.T) {
	t.Parallel()
	direct, schema := testenv.Postgres(t)
	url := testenv.PgBouncer(t)
	first := &pgtoken.Issuer{DB: pooled(t, url, pgx.QueryExecModeCacheStatement), Schema: schema}
	tok := pgtest.Acquire(t, first, "a")
	require.NoError(t, first.Release(t.Context(), tok))
	second := &pgtoken.Issuer{DB: pooled(t, url, pgx.QueryExecModeCacheStatement), Schema: schema}
	refused := func(iss *pgtoken.Issuer, code string) {
		t.Helper()
		_, err := iss.Acquire(t.Context(), resource, "b", long)
		var server *pgconn.PgError
		require.ErrorAs(t, err, &server)
		require.Equal(t, code, server.Code, "%v", err)
		require.Equal(t, tok.Number, pgtest.Query[int64](t, direct, "SELECT number FROM "+pgtest.In(schema, "leases")), "nothing was granted")
	}
	refused(second, "42P05") // the session of the first client has a statement with that name
	busy, err := pooled(t, url, pgx.QueryExecModeExec).Begin(t.Context())
	require.NoError(t, err)
	defer busy.Rollback(t.Context())
	refused(first, "26000") // that session is in use, and the next one has no such statement
}

// hazard P8
func TestWaitersBehindAPoolerPollInTurn(t *testing.T) {
	t.Parallel()
	direct, schema := testenv.Postgres(t)
	url := testenv.PgBouncer(t)
	pool := pooled(t, url, pgx.QueryExecModeExec)
	iss := closed(t, &pgtoken.Issuer{DB: pool, Schema: schema})
	tok := pgtest.Acquire(t, iss, "a")
	var turns []<-chan pgtest.Answer
	for i := range 4 {
		turns = append(turns, wait(t.Context(), iss, fmt.Sprint("waiter ", i), long))
		awaitQueue(t, direct, schema, i+1, polls)
	}
	for i, turn := range turns {
		require.NoError(t, iss.Release(t.Context(), tok))
		require.ErrorIs(t, refused(t, iss, "a newcomer"), token.ErrHeld, "an Acquire does not overtake the queue")
		tok = pgtest.Granted(t, turn)
		require.Equal(t, fmt.Sprint("waiter ", i), tok.Holder)
	}
	require.NoError(t, iss.Release(t.Context(), tok))
	pgtest.Await(t, func() bool { return pool.Stat().AcquiredConns() == 0 })
	for range 4 * clients { // whichever session it gets
		require.Zero(t, pgtest.Query[int](t, pool, "SELECT count(*) FROM pg_listening_channels()"))
		require.Zero(t, pgtest.Query[int](t, pool, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"))
	}
}

// hazard P8
func TestSessionsBehindAPoolerReceiveNothing(t *testing.T) {
	t.Parallel()
	direct, _ := testenv.Postgres(t)
	url := testenv.PgBouncer(t)
	listens, other := pooled(t, url, pgx.QueryExecModeExec), pooled(t, url, pgx.QueryExecModeExec)
	conn, err := listens.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	_, err = conn.Exec(t.Context(), "LISTEN naive")
	require.NoError(t, err)
	require.NotEqual(t, int(conn.Conn().PgConn().PID()), pgtest.Query[int](t, conn, "SELECT pg_backend_pid()"), "how an Issuer detects it")
	require.Equal(t, 1, pgtest.Query[int](t, other, "SELECT count(*) FROM pg_listening_channels()"), "the session is another client's by now")
	client, err := other.Acquire(t.Context())
	require.NoError(t, err)
	defer client.Release()
	require.NoError(t, pgx.BeginFunc(t.Context(), client, func(pgx.Tx) error { // has the session until it commits
		pgtest.Exec(t, direct, "NOTIFY naive")
		return nil
	}))
	_, err = client.Conn().WaitForNotification(t.Context())
	require.NoError(t, err, "the session's client receives the notification instead")
	brief, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = conn.Conn().WaitForNotification(brief)
	require.Error(t, err)
}

func TestWaitersOnAConnectionPoll(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	config := pool.Config().ConnConfig
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	holder := &pgtoken.Issuer{DB: pool, Schema: schema}
	tok := pgtest.Acquire(t, holder, "a")
	iss := &pgtoken.Issuer{DB: conn, Schema: schema}
	waiting := wait(t.Context(), iss, "b", long)
	awaitQueue(t, pool, schema, 1, polls)
	require.NoError(t, holder.Release(t.Context(), tok))
	require.Greater(t, pgtest.Granted(t, waiting).Number, tok.Number)
}

func TestClose(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	require.NoError(t, new(pgtoken.Issuer).Close(), "an Issuer that was never used")
	iss := named(t, schema, schema)
	tok := pgtest.Granted(t, wait(t.Context(), iss, "a", long))
	require.Empty(t, listeners(t, pool, schema), "a Wait for what is free needs no connection of its own")
	waiting := wait(t.Context(), iss, "b", long)
	awaitQueue(t, pool, schema, 1, notified)
	require.Len(t, listeners(t, pool, schema), 1)
	require.NoError(t, iss.Close())
	pgtest.Await(t, func() bool { return len(listeners(t, pool, schema)) == 0 })
	awaitQueue(t, pool, schema, 1, polls) // and keeps its place
	require.NoError(t, iss.Release(t.Context(), tok))
	require.Greater(t, pgtest.Granted(t, waiting).Number, tok.Number)
}

func TestConnectionEndsAfterTheIdleTimeout(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := named(t, schema, schema)
	iss.SetIdleTimeout(20 * time.Millisecond)
	for range 2 {
		tok := pgtest.Acquire(t, iss, "a")
		waiting := wait(t.Context(), iss, "b", long)
		awaitQueue(t, pool, schema, 1, notified)
		sessions := listeners(t, pool, schema)
		require.Len(t, sessions, 1)
		for range 2 { // it pings the server after each idle timeout that it outlives
			const sql = "SELECT coalesce((SELECT query_start::text FROM pg_stat_activity WHERE pid = $1), 'it has ended')"
			last := pgtest.Query[string](t, pool, sql, sessions[0])
			pgtest.Await(t, func() bool { return pgtest.Query[string](t, pool, sql, sessions[0]) != last })
		}
		require.Equal(t, sessions, listeners(t, pool, schema), "the connection stays while there is a waiter")
		require.NoError(t, iss.Release(t.Context(), tok))
		tok = pgtest.Granted(t, waiting)
		pgtest.Await(t, func() bool { return len(listeners(t, pool, schema)) == 0 })
		require.NoError(t, iss.Release(t.Context(), tok))
	}
}
