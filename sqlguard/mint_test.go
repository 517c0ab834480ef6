package sqlguard_test

import (
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
	t.Run("a minted token is complete, above the mark, and the mark", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		for _, mode := range modes {
			pool, _ := wired(t, 1, inMode(mode), withSetting("default_transaction_isolation", "serializable"))
			before, err := e.guard.Mint(e.bounded(), pool, resource, "before")
			require.NoError(t, err)
			tok, err := e.guard.Mint(e.bounded(), pool, resource, "me")
			require.NoError(t, err)
			require.NoError(t, tok.Check())
			require.Equal(t, token.Token{Resource: resource, Number: tok.Number, Holder: "me"}, tok)
			require.Greater(t, tok.Number, before.Number)
			require.Equal(t, e.mark(resource), query[string](e, "SELECT $1::bigint || ' me'", tok.Number))
			ctx := token.NewContext(e.bounded(), tok)
			require.NoError(t, e.guard.Update(ctx, resource, e.write(ctx, "me")))
			ctx = token.NewContext(e.bounded(), before)
			require.ErrorIs(t, e.guard.Update(ctx, resource, e.write(ctx, "late")), guard.ErrStale)
		}
	})
	t.Run("sixteen at once get sixteen numbers", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		var numbers sync.Map
		for _, err := range all(func(i int) error {
			tok, err := e.guard.Mint(e.bounded(), e.pool, resource, "h")
			if _, twice := numbers.LoadOrStore(tok.Number, i); twice {
				t.Errorf("%s twice", tok)
			}
			return err
		}) {
			require.NoError(t, err)
		}
	})
	t.Run("in the caller's transaction it counts from the commit on, and admits", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		e.admitted(33)
		tx := e.open(pgx.TxOptions{})
		tok, err := e.guard.Mint(e.bounded(), tx, resource, "me")
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
	t.Run("behind a fixed snapshot it is too late", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		_, err := e.guard.Mint(e.bounded(), e.open(pgx.TxOptions{IsoLevel: pgx.RepeatableRead}), resource, "me")
		require.Equal(t, []error{guard.ErrClaimFirst}, outcomes(err))
	})
	t.Run("incomplete names are refused before anything is sent", func(t *testing.T) {
		t.Parallel()
		for _, names := range [][2]string{{"", "h"}, {"account/42", ""}, {"a\nb", "h"}} {
			_, err := sqlguard.Mint(t.Context(), nil, names[0], names[1])
			require.ErrorIs(t, err, token.ErrInvalid)
		}
		_, err := sqlguard.Mint(t.Context(), nil, "account/42", "h")
		require.ErrorContains(t, err, "no DB")
	})
}
