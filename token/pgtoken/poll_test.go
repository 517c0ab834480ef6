package pgtoken_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

// polls are those who ask again and again.
const polls = "inbox = 0"

// hazard P8
func TestWaitersBehindAPoolerPollInTurn(t *testing.T) {
	t.Parallel()
	direct, schema := testenv.Postgres(t)
	url := testenv.PgBouncer(t)
	pool := pooled(t, url, pgx.QueryExecModeExec)
	iss := closed(t, &pgtoken.Issuer{DB: pool, Schema: schema})
	tok := acquire(t, iss, "a")
	var turns []<-chan answer
	for i := range 4 {
		turns = append(turns, wait(t.Context(), iss, fmt.Sprint("waiter ", i), long))
		awaitLine(t, direct, schema, i+1, polls)
	}
	for i, turn := range turns {
		require.NoError(t, iss.Release(t.Context(), tok))
		require.ErrorIs(t, refused(t, iss, "a newcomer"), token.ErrHeld, "it does not pass the line")
		tok = given(t, turn)
		require.Equal(t, fmt.Sprint("waiter ", i), tok.Holder)
	}
	require.NoError(t, iss.Release(t.Context(), tok))
	require.Eventually(t, func() bool { return pool.Stat().AcquiredConns() == 0 }, time.Minute, time.Millisecond)
	for range 4 * clients { // whichever session it meets
		require.Zero(t, query[int](t, pool, "SELECT count(*) FROM pg_listening_channels()"))
		require.Zero(t, query[int](t, pool, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"))
	}
}

// hazard P8
func TestSessionsBehindAPoolerHearNothing(t *testing.T) {
	t.Parallel()
	direct, _ := testenv.Postgres(t)
	url := testenv.PgBouncer(t)
	listens, other := pooled(t, url, pgx.QueryExecModeExec), pooled(t, url, pgx.QueryExecModeExec)
	conn, err := listens.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	_, err = conn.Exec(t.Context(), "LISTEN naive")
	require.NoError(t, err)
	require.NotEqual(t, int(conn.Conn().PgConn().PID()), query[int](t, conn, "SELECT pg_backend_pid()"), "how an Issuer knows")
	require.Equal(t, 1, query[int](t, other, "SELECT count(*) FROM pg_listening_channels()"), "it is another client's by now")
	exec(t, direct, "NOTIFY naive")
	exec(t, other, "SELECT") // is told instead
	_, err = conn.Conn().WaitForNotification(brief(t))
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
	tok := acquire(t, holder, "a")
	iss := &pgtoken.Issuer{DB: conn, Schema: schema}
	waiting := wait(t.Context(), iss, "b", long)
	awaitLine(t, pool, schema, 1, polls)
	require.NoError(t, holder.Release(t.Context(), tok))
	require.Greater(t, given(t, waiting).Number, tok.Number)
}

func TestClose(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	require.NoError(t, new(pgtoken.Issuer).Close(), "of one that was never used")
	iss := named(t, schema, schema)
	tok := acquire(t, iss, "a")
	waiting := wait(t.Context(), iss, "b", long)
	awaitLine(t, pool, schema, 1, notified)
	require.Len(t, listeners(t, pool, schema), 1)
	require.NoError(t, iss.Close())
	require.Eventually(t, func() bool { return len(listeners(t, pool, schema)) == 0 }, time.Minute, time.Millisecond)
	awaitLine(t, pool, schema, 1, polls) // and keeps its place
	require.NoError(t, iss.Release(t.Context(), tok))
	require.Greater(t, given(t, waiting).Number, tok.Number)
}

func TestConnectionEndsWhenNobodyWaits(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := named(t, schema, schema)
	iss.Hurry(20 * time.Millisecond)
	for range 2 {
		tok := acquire(t, iss, "a")
		waiting := wait(t.Context(), iss, "b", long)
		awaitLine(t, pool, schema, 1, notified)
		time.Sleep(100 * time.Millisecond)
		require.Len(t, listeners(t, pool, schema), 1, "while somebody waits it stays")
		require.NoError(t, iss.Release(t.Context(), tok))
		tok = given(t, waiting)
		require.Eventually(t, func() bool { return len(listeners(t, pool, schema)) == 0 }, time.Minute, time.Millisecond)
		require.NoError(t, iss.Release(t.Context(), tok))
	}
}
