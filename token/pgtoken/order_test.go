package pgtoken_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

// hazard P1
func TestNumbersRiseAcrossSessions(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	first, second := connect(t, one), connect(t, one)
	// Ahead of the clock, so that it is the sequence that numbers.
	exec(t, pool, "SELECT setval($1::text::regclass, $2)", in(schema, "numbers"), clock()+360_000_000)
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
	require.Equal(t, fmt.Sprintf("cache 1, cycle f, max %d", int64(token.MaxNumber)), query[string](t, pool, settings, schema))

	t.Run("a sequence that sessions cache falls", func(t *testing.T) {
		exec(t, pool, "CREATE SEQUENCE "+in(schema, "naive")+" CACHE 10")
		draw := "SELECT nextval('" + in(schema, "naive") + "')"
		query[int64](t, first, draw)
		before := query[int64](t, second, draw)
		require.Less(t, query[int64](t, first, draw), before)
	})
}

// hazard P2
func TestNumberIsDrawnUnderTheRowLock(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := &pgtoken.Issuer{DB: pool, Schema: schema}
	cycle(t, iss, "earlier")
	// Ahead of the clock, so that it is the sequence that numbers.
	exec(t, pool, "SELECT setval($1::text::regclass, $2)", in(schema, "numbers"), clock()+360_000_000)

	unlock := lockLease(t, pool, schema)
	// A lease of a microsecond is over when the next in the row's queue looks.
	first := start(t, iss, "first", time.Microsecond)
	awaitWaiters(t, pool, schema, 1)
	second := start(t, iss, "second", time.Microsecond)
	awaitWaiters(t, pool, schema, 2)
	meanwhile := query[int64](t, pool, "SELECT nextval($1::text::regclass)", in(schema, "numbers"))
	unlock()
	a, b := <-first, <-second
	require.NoError(t, a.err)
	require.NoError(t, b.err)
	require.NotEqual(t, a.grant.Token.Number, b.grant.Token.Number)
	require.Greater(t, min(a.grant.Token.Number, b.grant.Token.Number), meanwhile, "nobody has a number from before it had the row")
	row := query[int64](t, pool, "SELECT number FROM "+in(schema, "leases"))
	require.Equal(t, max(a.grant.Token.Number, b.grant.Token.Number), row, "the last to have the row has the greater number")
}

// hazard P2
func TestNaiveNumberDrawnBeforeTheLock(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	exec(t, pool, "CREATE SEQUENCE "+in(schema, "naive"))
	exec(t, pool, "INSERT INTO "+in(schema, "leases")+" VALUES ($1, 0, '', '-infinity')", resource)
	draw := "SELECT nextval('" + in(schema, "naive") + "')"
	grant := "UPDATE " + in(schema, "leases") + " SET number = $1"

	slow := query[int64](t, pool, draw)
	quick := query[int64](t, pool, draw)
	exec(t, pool, grant, quick) // and it is released
	exec(t, pool, grant, slow)
	require.Less(t, slow, quick, "the later grant must have the lower number")
}
