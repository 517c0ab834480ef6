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

// A row does not show when its mark was created, so Explain cannot distinguish a mark that
// the statement did not see from one that it did.
func TestAMarkThatIsCreatedBetweenTheStatementAndExplain(t *testing.T) {
	t.Parallel()
	for name, number := range map[string]int64{"by a sibling with the same token": 33, "under an older token": 32} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newRows(t)
			e.exec("UPDATE accounts SET last_token = 0, last_holder = ''")
			ctx := e.ctx(33)
			require.Zero(t, e.withdraw(ctx, 60))
			require.Equal(t, []error{guard.ErrClaimFirst}, outcomes(e.accounts.Explain(ctx, 42)), "without a writer in between")

			require.Zero(t, e.withdraw(ctx, 60))
			e.claimed(number)
			require.Equal(t, []error{guard.ErrRowNotFound}, outcomes(e.accounts.Explain(ctx, 42)), "the documented exception")
			require.Equal(t, int64(1), e.withdraw(ctx, 60), "the second try")
			require.Equal(t, int64(40), e.balance())

			require.Zero(t, e.withdraw(ctx, 60))
			require.Equal(t, []error{guard.ErrRowNotFound}, outcomes(e.accounts.Explain(ctx, 42)), "exact: the balance is too low")
		})
	}
	t.Run("after a claim the first try writes", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		e.exec("UPDATE accounts SET last_token = 0, last_holder = ''")
		e.claimed(33)
		require.Equal(t, int64(1), e.withdraw(e.ctx(33), 60))
		require.Equal(t, int64(40), e.balance())
	})
}

// withdraw takes an amount from account 42 by a hand-written statement, and returns how
// many rows that wrote.
func (e rowsEnv) withdraw(ctx context.Context, amount int64) int64 {
	e.t.Helper()
	own, err := e.accounts.Fence(ctx, 42)
	require.NoError(e.t, err)
	f := own.Clauses("a", amount)
	tag, err := e.pool.Exec(ctx, e.sql("UPDATE accounts AS a SET balance = a.balance - $1, "+f.Set+" WHERE "+f.Where+" AND a.balance >= $1"), f.Args...)
	require.NoError(e.t, err)
	return tag.RowsAffected()
}
