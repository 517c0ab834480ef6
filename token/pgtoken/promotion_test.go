package pgtoken_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

// A standby that follows asynchronously, is cut off, and is promoted: it has
// seen neither the last leases nor the last numbers, and the old primary is
// still there for those who do not know.
//
// hazard P6
func TestPromotedStandby(t *testing.T) {
	t.Parallel()
	primary := testenv.OwnPostgres(t)
	testenv.Migrate(t, primary.URL())
	before := poolOf(t, primary.URL(), usual)
	old := &pgtoken.Issuer{DB: before, Claims: true}
	exec(t, before, "CREATE SEQUENCE naive")
	cycle(t, old, "earlier")
	query[int64](t, before, "SELECT nextval('naive')")
	standby := primary.Standby()
	primary.CaughtUp()
	standby.CutOff()
	zombie := acquire(t, old, "zombie") // and claimed, where nobody will ask
	var drawn int64
	for range 40 { // the standby has 32 of a sequence in advance
		drawn = query[int64](t, before, "SELECT nextval('naive')")
	}
	standby.Promote()
	pool := poolOf(t, standby.URL(), usual)
	iss := &pgtoken.Issuer{DB: pool, Claims: true}
	require.Less(t, query[int64](t, pool, "SELECT nextval('naive')"), drawn, "a bare sequence must fall")

	next, err := iss.Acquire(t.Context(), resource, "next", long) // the zombie's lease is forgotten
	require.NoError(t, err)
	require.True(t, next.Claimed)
	require.Greater(t, next.Token.Number, zombie.Number, "the clock has risen meanwhile")
	require.ErrorContains(t, admit(t.Context(), pool, "fencepost", zombie), "ZF001", "and its writes are refused")
	require.NoError(t, admit(t.Context(), pool, "fencepost", next.Token))
	twin := token.Token{Resource: resource, Number: next.Token.Number, Holder: "zombie"}
	require.ErrorContains(t, admit(t.Context(), pool, "fencepost", twin), "ZF002", "nor is the very number, had it been given twice")

	t.Run("healed, where the numbers were ahead of the clock", func(t *testing.T) {
		heals(t, pool, iss, next.Token)
	})
}

// heals has a guard know a number that the issuer has forgotten.
func heals(t *testing.T, pool *pgxpool.Pool, iss *pgtoken.Issuer, tok token.Token) {
	ctx := context.WithoutCancel(t.Context())
	require.NoError(t, iss.Release(ctx, tok))
	naive := &pgtoken.Issuer{DB: pool}
	seen := token.Token{Resource: resource, Number: clock() + 360_000_000, Holder: "zombie"}
	require.NoError(t, admit(ctx, pool, "fencepost", seen))
	behind := acquire(t, naive, "behind")
	require.ErrorContains(t, admit(ctx, pool, "fencepost", behind), "ZF001", "unhealed, everybody is locked out")
	require.NoError(t, naive.Raise(ctx, resource, seen.Number))
	require.NoError(t, naive.Release(ctx, behind))
	require.NoError(t, admit(ctx, pool, "fencepost", acquire(t, naive, "ahead")))
}
