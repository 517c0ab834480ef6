package pgtoken_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

func TestRecoverSparesTheHolder(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := &pgtoken.Issuer{DB: pool, Schema: schema}
	tok := pgtest.Acquire(t, iss, "a")
	seen := tok.Number + 1000 // a guard has admitted it from another holder
	require.NoError(t, iss.Recover(t.Context(), resource, seen))
	require.ErrorIs(t, iss.Recover(t.Context(), resource, seen), token.ErrLost)
	require.Greater(t, pgtest.Acquire(t, iss, "a").Number, seen, "an equal number would collide")
	require.ErrorIs(t, iss.Recover(t.Context(), "", 1), token.ErrInvalid)
}

func TestRecoverLeavesTheSequence(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := &pgtoken.Issuer{DB: pool, Schema: schema}
	numbers := pgtest.In(schema, "numbers")
	draw := func() int64 { return pgtest.Query[int64](t, pool, "SELECT nextval($1::text::regclass)", numbers) }
	pgtest.Exec(t, pool, "SELECT setval($1::text::regclass, $2)", numbers, pgtest.Clock()+360_000_000)
	last := draw()
	require.NoError(t, iss.Recover(t.Context(), resource, last+100))
	require.Equal(t, last+1, draw())
	require.Greater(t, pgtest.Acquire(t, iss, "a").Number, last+100)

	t.Run("a recovery that sets it repeats what was drawn meanwhile", func(t *testing.T) {
		read := draw() // the value that the recovery has read
		drawn := map[int64]bool{}
		for range 60 {
			drawn[draw()] = true
		}
		pgtest.Exec(t, pool, "SELECT setval($1::text::regclass, $2)", numbers, read+50)
		require.True(t, drawn[draw()], "the number must have been drawn before")
	})
}

// An asynchronous standby is disconnected and promoted. It has neither the last leases
// nor the last numbers, and the old primary is still reachable.
//
// hazard P6
func TestStressPromotedStandby(t *testing.T) {
	t.Parallel()
	primary := testenv.OwnPostgres(t)
	testenv.Migrate(t, primary.URL())
	before := pgtest.Pool(t, primary.URL(), nil)
	old := &pgtoken.Issuer{DB: before, Claims: true}
	pgtest.Exec(t, before, "CREATE SEQUENCE naive")
	pgtest.Cycle(t, old, "earlier")
	pgtest.Query[int64](t, before, "SELECT nextval('naive')")
	standby := primary.Standby()
	primary.CaughtUp()
	standby.CutOff()
	zombie := pgtest.Acquire(t, old, "zombie") // and claimed, on the old primary
	var drawn int64
	for range 40 { // the standby is up to 32 numbers of a sequence ahead
		drawn = pgtest.Query[int64](t, before, "SELECT nextval('naive')")
	}
	standby.Promote()
	pool := pgtest.Pool(t, standby.URL(), nil)
	iss := &pgtoken.Issuer{DB: pool, Claims: true}
	require.Less(t, pgtest.Query[int64](t, pool, "SELECT nextval('naive')"), drawn, "a bare sequence must fall")

	next, err := iss.Acquire(t.Context(), resource, "next", long) // the standby does not have the zombie's lease
	require.NoError(t, err)
	require.NotZero(t, next.Claimed)
	require.Greater(t, next.Token.Number, zombie.Number, "the clock has risen meanwhile")
	require.ErrorContains(t, admit(t.Context(), pool, "fencepost", zombie), "ZF001", "and its writes are refused")
	require.NoError(t, admit(t.Context(), pool, "fencepost", next.Token))
	twin := token.Token{Resource: resource, Number: next.Token.Number, Holder: "zombie"}
	require.ErrorContains(t, admit(t.Context(), pool, "fencepost", twin), "ZF002", "an equal number, if it had been granted twice, is refused too")

	t.Run("recovered, if the numbers were ahead of the clock", func(t *testing.T) {
		recovers(t, pool, iss, next.Token)
	})
}

// recovers makes a guard admit a number that the issuer has forgotten.
func recovers(t *testing.T, pool *pgxpool.Pool, iss *pgtoken.Issuer, tok token.Token) {
	ctx := context.WithoutCancel(t.Context())
	require.NoError(t, iss.Release(ctx, tok))
	naive := &pgtoken.Issuer{DB: pool}
	seen := token.Token{Resource: resource, Number: pgtest.Clock() + 360_000_000, Holder: "zombie"}
	require.NoError(t, admit(ctx, pool, "fencepost", seen))
	behind := pgtest.Acquire(t, naive, "behind")
	require.ErrorContains(t, admit(ctx, pool, "fencepost", behind), "ZF001", "without a recovery, every holder is refused")
	require.NoError(t, naive.Recover(ctx, resource, seen.Number))
	require.NoError(t, naive.Release(ctx, behind))
	require.NoError(t, admit(ctx, pool, "fencepost", pgtest.Acquire(t, naive, "ahead")))
}
