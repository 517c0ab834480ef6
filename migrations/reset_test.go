package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

const poison = 999_999_999_999_999

// poisoned is a fence whose mark of account/42 no token can reach.
func poisoned(t *testing.T) fence {
	t.Helper()
	f := newFence(t)
	require.NoError(t, f.admit(t.Context(), f, "account/42", poison, "forged"))
	return f
}

func TestReset(t *testing.T) {
	t.Parallel()
	t.Run("lowers a poisoned mark to the clock", func(t *testing.T) {
		t.Parallel()
		f := poisoned(t)
		ctx := t.Context()
		before := get[int64](t, f, f, "SELECT number FROM fence.acquire('account/42', 'before', '1 minute')")
		refused(t, f.admit(ctx, f, "account/42", before, "before"), "ZF001", "999999999999999 forged")
		require.NoError(t, f.exec(ctx, f, "SELECT fence.release('account/42', 'before')"))

		low := get[int64](t, f, f, clock)
		n := get[int64](t, f, f, "SELECT fence.reset('account/42')")
		require.GreaterOrEqual(t, n, low)
		require.LessOrEqual(t, n, get[int64](t, f, f, clock))
		number, holder := f.mark(t, "account/42")
		require.Equal(t, n, number)
		role := get[string](t, f, f, "SELECT session_user")
		require.Regexp(t, "^reset/"+role+"/[0-9a-f-]{36}$", holder)

		require.Equal(t, "ZF001", code(f.admit(ctx, f, "account/42", before, "before")), "what was issued before is let in")
		after := get[int64](t, f, f, "SELECT number FROM fence.acquire('account/42', 'after', '1 minute')")
		require.NoError(t, f.admit(ctx, f, "account/42", after, "after"), "the next acquisition is still locked out")
	})
	t.Run("lets mint go on below the poison", func(t *testing.T) {
		t.Parallel()
		f := poisoned(t)
		require.Equal(t, "ZF005", code(f.exec(t.Context(), f, "SELECT fence.mint('account/42', 'a')")))
		n := get[int64](t, f, f, "SELECT fence.reset('account/42')")
		require.Greater(t, get[int64](t, f, f, "SELECT fence.mint('account/42', 'a')"), n)
	})
	t.Run("does not touch a mark that is not poisoned", func(t *testing.T) {
		t.Parallel()
		f := pruned(t)
		ctx := t.Context()
		require.NoError(t, f.admit(ctx, f, "account/42", 50, "a"))
		err := f.exec(ctx, f, "SELECT fence.reset('account/42')")
		refused(t, err, "55000", "50 a")
		require.ErrorContains(t, err, "fencepost: nothing to reset: the mark is not above the clock")
		require.Equal(t, "P0002", code(f.exec(ctx, f, "SELECT fence.reset('account/new')")))
		number, _ := f.mark(t, "account/42")
		require.Equal(t, int64(50), number)
	})
	t.Run("may be told the number", func(t *testing.T) {
		t.Parallel()
		f := pruned(t)
		ctx := t.Context()
		require.NoError(t, f.admit(ctx, f, "account/42", 50, "a"))
		require.Equal(t, int64(40), get[int64](t, f, f, "SELECT fence.reset('account/42', 40)"))
		require.NoError(t, f.admit(ctx, f, "account/42", 41, "b"))
	})
	t.Run("refuses a number below the floor, and one that poisons", func(t *testing.T) {
		t.Parallel()
		f := pruned(t)
		ctx := t.Context()
		require.NoError(t, f.admit(ctx, f, "account/42", 50, "a"))
		for _, bad := range []any{9, 0, -1, int64(poison)} {
			require.Equal(t, "22023", code(f.exec(ctx, f, "SELECT fence.reset('account/42', $1)", bad)), "%v", bad)
		}
		require.Equal(t, "22023", code(f.exec(ctx, f, "SELECT fence.reset('account/42', fence.number_at(clock_timestamp() + interval '25 hours'))")))
		require.NoError(t, f.exec(ctx, f, "SELECT fence.reset('account/42', fence.number_at(clock_timestamp() + interval '23 hours'))"))
		require.NoError(t, f.exec(ctx, f, "SELECT fence.reset('account/42', 10)"))
	})
	t.Run("is durable whatever the session says", func(t *testing.T) {
		t.Parallel()
		f := poisoned(t)
		tx := f.begin(t, pgx.ReadCommitted)
		require.NoError(t, f.exec(t.Context(), tx, "SET LOCAL synchronous_commit = off"))
		require.NoError(t, f.exec(t.Context(), tx, "SELECT fence.reset('account/42')"))
		require.Equal(t, "on", get[string](t, f, tx, "SHOW synchronous_commit"))
	})
	t.Run("refuses a fixed snapshot", func(t *testing.T) {
		t.Parallel()
		f := poisoned(t)
		for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
			require.Equal(t, "25000", code(f.exec(t.Context(), f.begin(t, level), "SELECT fence.reset('account/42')")))
		}
	})
}
