package sqlguard_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

func TestMint(t *testing.T) {
	t.Parallel()
	inEnv(t, "a minted token is complete, above the mark, and the mark", func(t *testing.T, e *env) {
		for _, mode := range modes {
			pool, _ := wired(t, 1, inMode(mode), withSetting("default_transaction_isolation", "serializable"))
			before, err := mintedToken(e.by(pool).Mint(e.bounded(), resource, "before"))
			require.NoError(t, err)
			tok, err := mintedToken(e.by(pool).Mint(e.bounded(), resource, "me"))
			require.NoError(t, err)
			require.NoError(t, tok.Validate())
			require.Equal(t, token.Token{Resource: resource, Number: tok.Number, Holder: "me"}, tok)
			require.Greater(t, tok.Number, before.Number)
			require.Equal(t, e.mark(resource), query[string](e, "SELECT $1::bigint || ' me'", tok.Number))
			ctx := token.NewContext(e.bounded(), tok)
			require.NoError(t, e.guard.Update(ctx, resource, e.write(ctx, "me")))
			ctx = token.NewContext(e.bounded(), before)
			require.ErrorIs(t, e.guard.Update(ctx, resource, e.write(ctx, "late")), guard.ErrStale)
		}
	})
	inEnv(t, "sixteen at once get sixteen numbers", func(t *testing.T, e *env) {
		var numbers sync.Map
		for _, err := range all(func(i int) error {
			tok, err := mintedToken(e.guard.Mint(e.bounded(), resource, "h"))
			if _, twice := numbers.LoadOrStore(tok.Number, i); twice {
				t.Errorf("%s twice", tok)
			}
			return err
		}) {
			require.NoError(t, err)
		}
	})
	inEnv(t, "in the caller's transaction it counts from the commit on, and admits", func(t *testing.T, e *env) {
		e.admitted(33)
		tx := e.open(pgx.TxOptions{})
		tok, err := mintedToken(e.guard.MintTx(e.bounded(), tx, resource, "me"))
		require.NoError(t, err)
		require.NoError(t, e.write(t.Context(), "me")(tx))
		late := async(func() error { return e.guard.Update(e.ctx(33), resource, e.write(e.bounded(), "late")) })
		e.awaitWaiting(1)
		require.Equal(t, "33 h33", e.mark(resource))
		require.NoError(t, tx.Commit(e.bounded()))
		require.ErrorIs(t, await(t, late), guard.ErrStale)
		require.Equal(t, "me", e.writer())
		require.Equal(t, query[string](e, "SELECT $1::bigint || ' me'", tok.Number), e.mark(resource))
	})
	inEnv(t, "after a fixed snapshot it is too late", func(t *testing.T, e *env) {
		_, err := e.guard.MintTx(e.bounded(), e.open(pgx.TxOptions{IsoLevel: pgx.RepeatableRead}), resource, "me")
		require.Equal(t, []error{guard.ErrClaimFirst}, outcomes(err))
	})
	t.Run("incomplete names are refused before anything is sent", func(t *testing.T) {
		t.Parallel()
		for _, names := range [][2]string{{"", "h"}, {"account/42", ""}, {"a\nb", "h"}} {
			_, err := (&sqlguard.Guard{}).Mint(t.Context(), names[0], names[1])
			require.ErrorIs(t, err, token.ErrInvalid)
		}
		_, err := (&sqlguard.Guard{}).Mint(t.Context(), "account/42", "h")
		require.ErrorContains(t, err, "no DB")
	})
}

// prune deletes the marks below cutoff.
func (e *env) prune(cutoff int64) int {
	e.t.Helper()
	return query[int](e, "SELECT "+pgx.Identifier{e.schema, "prune"}.Sanitize()+"($1)", cutoff)
}

// hazard G21
func TestFloorRefusesAtEveryDoor(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Update", "Update under SERIALIZABLE", "On.Exec", "Join", "Admit, then write"} {
		door := func(e *env, number int64) error {
			g, door := e.guard, name
			if plain, fixed := strings.CutSuffix(name, " under SERIALIZABLE"); fixed {
				g, door = e.at(pgx.Serializable), plain
			}
			return doors(e, g)[door](e.ctx(number), "stale")
		}
		inEnv(t, name, func(t *testing.T, e *env) {
			e.admitted(5, 6)
			require.Equal(t, 1, e.prune(10))
			for _, number := range []int64{5, 6, 9} {
				err := door(e, number)
				var stale *guard.StaleError
				require.ErrorAs(t, err, &stale)
				require.Equal(t, guard.Mark{Number: 10}, stale.Mark)
				require.NotErrorIs(t, err, guard.ErrCollision)
			}
			require.Empty(t, e.writer())
			require.NoError(t, door(e, 10), "what is not below the floor is admitted")
			require.Equal(t, "10 h10", e.mark(resource))
		})
		inEnv(t, name+", the twin: pruned without a floor", func(t *testing.T, e *env) {
			e.admitted(5, 6)
			e.exec("DELETE FROM marks WHERE number < 10")
			require.NoError(t, door(e, 5), "the twin shows nothing: it must admit the stale token")
		})
	}
}

// hazard G21
func TestFloorIsReported(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.admitted(6)
	require.Equal(t, 1, e.prune(10))
	g, seen := e.reporting(e.pool)
	ctx := e.ctx(6)
	require.NoError(t, g.Update(ctx, resource, e.write(ctx, "stale")))
	require.Len(t, *seen, 1)
	var stale *guard.StaleError
	require.ErrorAs(t, (*seen)[0], &stale)
	require.Equal(t, guard.Mark{Number: 10}, stale.Mark)
	require.Equal(t, "stale", e.writer())
}

func TestMintAfterPrune(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	first, err := mintedToken(e.guard.Mint(e.bounded(), resource, "a"))
	require.NoError(t, err)
	require.Equal(t, 1, e.prune(first.Number+1))
	second, err := mintedToken(e.guard.Mint(e.bounded(), resource, "b"))
	require.NoError(t, err)
	require.Greater(t, second.Number, first.Number)
	require.ErrorIs(t, e.guard.Admit(e.bounded(), first), guard.ErrStale)
	require.True(t, strings.HasSuffix(e.mark(resource), " b"))
}
