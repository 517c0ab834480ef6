package pgtoken_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

// listeners are the sessions of that name that hold the lock of an inbox.
func listeners(t *testing.T, pool *pgxpool.Pool, name string) []int {
	t.Helper()
	rows, err := pool.Query(t.Context(), "SELECT a.pid FROM pg_stat_activity a JOIN pg_locks l USING (pid)"+
		" WHERE a.application_name = $1 AND l.locktype = 'advisory' AND l.mode = 'ExclusiveLock'", name)
	require.NoError(t, err)
	var pids []int
	for rows.Next() {
		var pid int
		require.NoError(t, rows.Scan(&pid))
		pids = append(pids, pid)
	}
	require.NoError(t, rows.Err())
	return pids
}

// named is an Issuer with a pool of its own, whose sessions have the name.
func named(t *testing.T, schema, name string) *pgtoken.Issuer {
	t.Helper()
	pool := connect(t, func(config *pgxpool.Config) { config.ConnConfig.RuntimeParams["application_name"] = name })
	return closed(t, &pgtoken.Issuer{DB: pool, Schema: schema})
}

func TestWaitForWhatIsFreeNeedsNoConnectionOfItsOwn(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := named(t, schema, schema)
	tok := given(t, wait(t.Context(), iss, "a", long))
	require.Empty(t, listeners(t, pool, schema))
	waiting := wait(t.Context(), iss, "b", long)
	awaitLine(t, pool, schema, 1, notified)
	require.Len(t, listeners(t, pool, schema), 1)
	require.NoError(t, iss.Release(t.Context(), tok))
	require.Greater(t, given(t, waiting).Number, tok.Number)
}

func TestWaitSaysWhyItEnded(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := closed(t, &pgtoken.Issuer{DB: pool, Schema: schema})
	acquire(t, iss, "a")
	cause := errors.New("the caller has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	waiting := wait(ctx, iss, "b", long)
	awaitLine(t, pool, schema, 1, notified)
	cancel(cause)
	err := (<-waiting).err
	require.ErrorIs(t, err, cause)
	require.ErrorContains(t, err, "pgtoken: wait for account/42: ")
	var held *token.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, "a", held.Holder)
	awaitLine(t, pool, schema, 0, "true")
}

// hazard R13
func TestMessageThatWasLongUnderWay(t *testing.T) {
	t.Parallel()
	const ttl = 300 * time.Millisecond // and 250 ms where it is handed over
	pool, schema := testenv.Postgres(t)
	iss := closed(t, &pgtoken.Issuer{DB: pool, Schema: schema})
	tok := acquire(t, iss, "a")
	// A waiter's session, which nobody reads for a while.
	conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.PgConn().Exec(t.Context(), "LISTEN fencepost_5; SELECT pg_advisory_lock(5)").ReadAll()
	require.NoError(t, err)
	asked := time.Now()
	var answered int64
	answer := "SELECT split_part(" + in(schema, "ask") + "($1, 'b', $2::bigint * interval '1 microsecond', false, 5), ' ', 3)::bigint"
	require.NoError(t, pool.QueryRow(t.Context(), answer, resource, ttl.Microseconds()).Scan(&answered))

	require.NoError(t, iss.Release(t.Context(), tok)) // to b
	grant, err := iss.Wait(t.Context(), resource, "c", long)
	require.NoError(t, err, "b was not heard of")
	n, err := conn.WaitForNotification(t.Context())
	require.NoError(t, err)
	received := time.Now()
	require.False(t, pgtoken.UntilOfMessage(n.Payload, asked, answered, received).After(received), "b has nothing, now that it hears of it")
	naive := received.Add(250 * time.Millisecond)
	require.True(t, naive.After(received), "counted from its receipt it must be alive")
	require.True(t, grant.Until.After(received), "beside that of c")

	set := fmt.Sprintf("7 0 %d 0\n250000\naccount/42\nb", answered+time.Hour.Microseconds())
	require.False(t, pgtoken.UntilOfMessage(set, asked, answered, received).After(received.Add(250*time.Millisecond)), "nor later, where the server's clock was set forward")
}

// hazard L7
func TestDeadWaitersArePassedOver(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := closed(t, &pgtoken.Issuer{DB: pool, Schema: schema})
	tok := acquire(t, iss, "a")
	// As processes leave them that were killed: one that was notified, one that polled.
	dead := "INSERT INTO " + in(schema, "waiters") + " SELECT $1, 'dead ' || i, i, i, '1 h', false, now() - interval '1 h', '1 s' FROM generate_series(0, 1) i"
	exec(t, pool, dead, resource)
	waiting := wait(t.Context(), iss, "b", long)
	awaitLine(t, pool, schema, 1, notified+" AND holder = 'b'")
	require.NoError(t, iss.Release(t.Context(), tok))
	require.NoError(t, iss.Release(t.Context(), given(t, waiting)))
	awaitLine(t, pool, schema, 0, "true")
	cycle(t, iss, "c")
}

// hazard L7
func TestWaitersWhoseSessionIsEndedKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	first, second := named(t, schema, schema+"1"), named(t, schema, schema+"2")
	tok := acquire(t, first, "a")
	var turns []<-chan answer
	for i, iss := range []*pgtoken.Issuer{first, second, first, second} {
		turns = append(turns, wait(t.Context(), iss, fmt.Sprint("waiter ", i), long))
		awaitLine(t, pool, schema, i+1, notified)
	}
	before := query[int64](t, pool, "SELECT sum(inbox::numeric % 1000003)::bigint FROM "+in(schema, "waiters")+" WHERE holder IN ('waiter 0', 'waiter 2')")
	for _, pid := range listeners(t, pool, schema+"1") {
		require.True(t, query[bool](t, pool, "SELECT pg_terminate_backend($1)", pid))
	}
	require.Eventually(t, func() bool { // they have asked again, from another session
		return query[bool](t, pool, "SELECT count(*) = 2 AND sum(inbox::numeric % 1000003)::bigint <> $1 FROM "+in(schema, "waiters")+
			" WHERE inbox <> 0 AND holder IN ('waiter 0', 'waiter 2')", before)
	}, time.Minute, time.Millisecond)
	for i, turn := range turns {
		require.NoError(t, first.Release(t.Context(), tok))
		tok = given(t, turn)
		require.Equal(t, fmt.Sprint("waiter ", i), tok.Holder)
	}
}
