package sqlguard_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/token"
)

func TestAFence(t *testing.T) {
	t.Parallel()
	e := newRows(t)
	t.Run("is for the row of its key alone", func(t *testing.T) {
		own, err := e.accounts.Fence(e.ctx(33), 42)
		require.NoError(t, err)
		f := own.Clauses("a")
		tag, err := e.pool.Exec(t.Context(), e.sql("UPDATE accounts AS a SET writer = 'x', "+f.Set+" WHERE "+f.Where), f.Args...)
		require.NoError(t, err)
		require.Equal(t, int64(1), tag.RowsAffected())
		require.Empty(t, query[string](e.env, "SELECT writer FROM accounts WHERE id = 43"))
	})
	t.Run("of no token there is none", func(t *testing.T) {
		own, err := e.accounts.Fence(e.ctx(33), 43)
		require.ErrorIs(t, err, token.ErrMissing)
		require.Equal(t, rowguard.Clauses{Where: "(false)", Args: []any{7}}, own.Clauses("a", 7))
	})
	t.Run("differs from the other conditions of a statement", func(t *testing.T) {
		require.Equal(t, []error{guard.ErrRowNotFound}, outcomes(e.accounts.Explain(e.ctx(33), 42)), "to try again would be no use")
		require.ErrorIs(t, e.accounts.Explain(e.ctx(32), 42), guard.ErrStale)
		require.ErrorIs(t, e.accounts.Explain(e.as(33, "impostor"), 42), guard.ErrCollision)
		require.ErrorIs(t, e.accounts.Explain(context.Background(), 42), token.ErrMissing)
	})
	t.Run("two of one statement are numbered one after the other", func(t *testing.T) {
		both := token.NewContext(e.ctx(33), token.Token{Resource: "account/43", Number: 7, Holder: "h7"})
		from, err := e.accounts.Fence(both, 42)
		require.NoError(t, err)
		to, err := e.accounts.Fence(both, 43)
		require.NoError(t, err)
		first := from.Clauses("a", 7)
		second := to.Clauses("b", first.Args...)
		require.Equal(t, 1, query[int](e.env, "SELECT count(*) FROM accounts AS a, accounts AS b WHERE $1::int = 7 AND "+first.Where+" AND "+second.Where, second.Args...))
		require.Len(t, first.Args, 5, "the first one's are not written into")
	})
}
