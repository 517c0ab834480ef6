package pgtoken_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

// hazard P1
func TestNumbersRiseAcrossSessions(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	first, second := pgtest.Connect(t, pgtest.One), pgtest.Connect(t, pgtest.One)
	// The sequence is ahead of the clock, so that the numbers come from the sequence.
	pgtest.Exec(t, pool, "SELECT setval($1::text::regclass, $2)", pgtest.In(schema, "numbers"), pgtest.Clock()+360_000_000)
	var last int64
	for i := range 10 {
		for _, db := range []pgtoken.DB{first, second} {
			iss := &pgtoken.Issuer{DB: db, Schema: schema}
			grant, err := iss.Acquire(t.Context(), fmt.Sprintf("account/%d", i), "a", time.Microsecond)
			require.NoError(t, err)
			require.Greater(t, grant.Token.Number, last)
			last = grant.Token.Number
		}
	}
	const settings = "SELECT format('cache %s, cycle %s, max %s', cache_size, cycle, max_value)" +
		" FROM pg_sequences WHERE schemaname = $1 AND sequencename = 'numbers'"
	require.Equal(t, fmt.Sprintf("cache 1, cycle f, max %d", int64(token.MaxNumber)), pgtest.Query[string](t, pool, settings, schema))

	t.Run("a sequence that sessions cache falls", func(t *testing.T) {
		pgtest.Exec(t, pool, "CREATE SEQUENCE "+pgtest.In(schema, "naive")+" CACHE 10")
		draw := "SELECT nextval('" + pgtest.In(schema, "naive") + "')"
		pgtest.Query[int64](t, first, draw)
		before := pgtest.Query[int64](t, second, draw)
		require.Less(t, pgtest.Query[int64](t, first, draw), before)
	})
}

// hazard P2
func TestNumberIsDrawnUnderTheRowLock(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := &pgtoken.Issuer{DB: pool, Schema: schema}
	pgtest.Cycle(t, iss, "earlier")
	// The sequence is ahead of the clock, so that the numbers come from the sequence.
	pgtest.Exec(t, pool, "SELECT setval($1::text::regclass, $2)", pgtest.In(schema, "numbers"), pgtest.Clock()+360_000_000)

	unlock := lockLease(t, pool, schema)
	// A lease of a microsecond has expired when the next transaction gets the row lock.
	first := start(t, iss, "first", time.Microsecond)
	pgtest.AwaitLockWaiters(t, pool, schema, 1)
	second := start(t, iss, "second", time.Microsecond)
	pgtest.AwaitLockWaiters(t, pool, schema, 2)
	meanwhile := pgtest.Query[int64](t, pool, "SELECT nextval($1::text::regclass)", pgtest.In(schema, "numbers"))
	unlock()
	a, b := <-first, <-second
	require.NoError(t, a.Err)
	require.NoError(t, b.Err)
	require.NotEqual(t, a.Grant.Token.Number, b.Grant.Token.Number)
	require.Greater(t, min(a.Grant.Token.Number, b.Grant.Token.Number), meanwhile, "a number is drawn after the row is locked")
	row := pgtest.Query[int64](t, pool, "SELECT number FROM "+pgtest.In(schema, "leases"))
	require.Equal(t, max(a.Grant.Token.Number, b.Grant.Token.Number), row, "the last transaction to lock the row has the greater number")
}

// hazard P2
func TestNaiveNumberDrawnBeforeTheLock(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	pgtest.Exec(t, pool, "CREATE SEQUENCE "+pgtest.In(schema, "naive"))
	pgtest.Exec(t, pool, "INSERT INTO "+pgtest.In(schema, "leases")+" VALUES ($1, 0, '', '-infinity')", resource)
	draw := "SELECT nextval('" + pgtest.In(schema, "naive") + "')"
	grant := "UPDATE " + pgtest.In(schema, "leases") + " SET number = $1"

	slow := pgtest.Query[int64](t, pool, draw)
	quick := pgtest.Query[int64](t, pool, draw)
	pgtest.Exec(t, pool, grant, quick) // and it is released
	pgtest.Exec(t, pool, grant, slow)
	require.Less(t, slow, quick, "the later grant must have the lower number")
}

// hazard P3
func TestNumbersSurviveACrash(t *testing.T) {
	t.Parallel()
	spare := testenv.SparePostgres(t)
	testenv.Migrate(t, spare.URL())
	sure := session(t, spare.URL(), "on")
	pgtest.Exec(t, sure, "CREATE SEQUENCE naive")
	// The rows are ahead of the clock, so that the clock has no effect.
	const row = "INSERT INTO fencepost.leases VALUES ($1, $2, $3, $4)"
	for _, of := range []string{"acquired", "handed over"} {
		pgtest.Exec(t, sure, row, of, pgtest.Clock()+360_000_000, "", "-infinity")
	}
	pgtest.Exec(t, sure, row, "released", 1, "a", "infinity")

	hasty := session(t, spare.URL(), "off")
	iss := &pgtoken.Issuer{DB: hasty}
	grant, err := iss.Acquire(t.Context(), "acquired", "before", long)
	require.NoError(t, err)
	first, err := iss.Acquire(t.Context(), "handed over", "first", long)
	require.NoError(t, err)
	enter := "SELECT fencepost.try_acquire($1, 'before', '1 h', false, 0, 0, '1 h')" // a waiter that polls
	require.Contains(t, pgtest.Query[string](t, sure, enter, first.Token.Resource), " first")
	require.NoError(t, iss.Release(t.Context(), first.Token))
	handed := token.Token{Resource: first.Token.Resource, Holder: "before",
		Number: pgtest.Query[int64](t, sure, "SELECT number FROM fencepost.leases WHERE resource = $1", first.Token.Resource)}
	// The twins: a release that hands nothing over may be undone, and so may a naive
	// number.
	require.NoError(t, iss.Release(t.Context(), token.Token{Resource: "released", Number: 1, Holder: "a"}))
	drawn := pgtest.Query[int64](t, hasty, "SELECT nextval('naive')")
	spare.Crash()

	after := session(t, spare.URL(), "off")
	require.Equal(t, drawn, pgtest.Query[int64](t, after, "SELECT nextval('naive')"),
		"the naive number must be issued again")
	require.Equal(t, "a", pgtest.Query[string](t, after, "SELECT holder FROM fencepost.leases WHERE resource = $1", "released"))
	remembers(t, &pgtoken.Issuer{DB: after}, grant.Token)
	remembers(t, &pgtoken.Issuer{DB: after}, handed)
}

func remembers(t *testing.T, iss *pgtoken.Issuer, tok token.Token) {
	t.Helper()
	_, err := iss.Acquire(t.Context(), tok.Resource, "after", long)
	var held *token.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, tok.Holder, held.Holder)
	again, err := iss.Acquire(t.Context(), tok.Resource, tok.Holder, long)
	require.NoError(t, err)
	require.Equal(t, tok, again.Token)
	require.NoError(t, iss.Release(t.Context(), tok))
	next, err := iss.Acquire(t.Context(), tok.Resource, "after", long)
	require.NoError(t, err)
	require.Greater(t, next.Token.Number, tok.Number)
}

// session is a connection that a crash may end.
func session(t *testing.T, url, synchronousCommit string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	config.RuntimeParams["synchronous_commit"] = synchronousCommit
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) }) // an error means only that the crash closed it
	return conn
}
