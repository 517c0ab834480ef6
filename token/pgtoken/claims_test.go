package pgtoken_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

func mark(t *testing.T, db pgtest.Queryer, schema string) token.Token {
	t.Helper()
	tok := token.Token{Resource: resource}
	row := db.QueryRow(t.Context(), "SELECT number, holder FROM "+pgtest.In(schema, "marks")+" WHERE resource = $1", resource)
	require.NoError(t, row.Scan(&tok.Number, &tok.Holder))
	return tok
}

func admit(ctx context.Context, db pgtest.Queryer, schema string, tok token.Token) error {
	return db.QueryRow(ctx, "SELECT "+pgtest.In(schema, "admit")+"($1, $2, $3)::text", tok.Resource, tok.Number, tok.Holder).Scan(new(string))
}

func TestGrantRaisesTheMark(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := closed(t, &pgtoken.Issuer{DB: pool, Schema: schema, Claims: true})
	claimed := func(grant token.Grant, err error) token.Token {
		t.Helper()
		require.NoError(t, err)
		require.NotZero(t, grant.Claimed)
		require.Equal(t, mark(t, pool, schema), grant.Token)
		return grant.Token
	}
	a := claimed(iss.Acquire(t.Context(), resource, "a", long)) // the first mark
	require.Equal(t, a, claimed(iss.Acquire(t.Context(), resource, "a", long)), "the same number again, after a lost reply")

	waiting := wait(t.Context(), iss, "b", long)
	awaitQueue(t, pool, schema, 1, notified)
	require.NoError(t, iss.Release(t.Context(), a))
	handed := <-waiting
	b := claimed(handed.Grant, handed.Err)
	require.NoError(t, iss.Release(t.Context(), b))
	require.NoError(t, admit(t.Context(), pool, schema, b), "it is admitted until a successor is")

	high := token.Token{Resource: resource, Number: b.Number + 360_000_000, Holder: "another issuer's"} // an hour
	require.NoError(t, admit(t.Context(), pool, schema, high))
	require.Equal(t, high.Number+1, claimed(iss.Acquire(t.Context(), resource, "c", long)).Number, "above the mark")
}

func TestForgedMarkIsLeftAlone(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := &pgtoken.Issuer{DB: pool, Schema: schema, Claims: true}
	forged := token.Token{Resource: resource, Number: token.MaxNumber - 1, Holder: "forged"}
	require.NoError(t, admit(t.Context(), pool, schema, forged))
	grant, err := iss.Acquire(t.Context(), resource, "a", long)
	require.NoError(t, err)
	require.Zero(t, grant.Claimed)
	require.Less(t, grant.Token.Number, pgtest.Clock()+360_000_000, "a number above a forged one would be too far ahead as well")
	require.Equal(t, forged, mark(t, pool, schema))
}

// hazard G8
func TestClaimDoesNotWaitForAZombie(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := &pgtoken.Issuer{DB: pool, Schema: schema, Claims: true}
	a := pgtest.Acquire(t, iss, "a")
	zombie, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer zombie.Rollback(context.WithoutCancel(t.Context()))
	require.NoError(t, admit(t.Context(), zombie, schema, a))
	pgtest.Exec(t, pool, "UPDATE "+pgtest.In(schema, "leases")+" SET expires_at = '-infinity'")

	grant, err := iss.Acquire(t.Context(), resource, "b", long) // while the zombie's transaction is open
	require.NoError(t, err)
	require.Zero(t, grant.Claimed, "the Locker's own claim must raise the mark")
	require.Equal(t, a, mark(t, pool, schema))

	t.Run("the naive claim waits, and keeps the lease locked for as long", func(t *testing.T) {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		defer tx.Rollback(context.WithoutCancel(t.Context()))
		pgtest.Exec(t, tx, "SELECT FROM "+pgtest.In(schema, "leases")+" WHERE resource = $1 FOR UPDATE", resource)
		ctx, cancel := context.WithCancel(t.Context())
		naive := pgtest.Later(t, func() error { return admit(ctx, tx, schema, grant.Token) })
		pgtest.AwaitLockWaiters(t, pool, schema, 1)
		busy, end := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer end()
		require.ErrorIs(t, iss.Release(busy, grant.Token), context.DeadlineExceeded)
		cancel()
		require.Error(t, naive())
	})
}
