package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// Writers whose own mark is pruned: refused, or told to run again.
//
// hazard G21
func TestOwnMarkIsPruned(t *testing.T) {
	t.Parallel()
	own := func(t *testing.T) fence {
		f := newFence(t)
		require.NoError(t, f.admit(t.Context(), f, "account/42", 5, "a"))
		return f
	}
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		t.Run("since the snapshot of "+string(level), func(t *testing.T) {
			t.Parallel()
			f, ctx := own(t), t.Context()
			twin := newFence(t)
			twin.mutate(t, "admit_slow", " FOR SHARE", "")
			require.NoError(t, twin.admit(ctx, twin, "account/42", 5, "a"))
			for _, f := range []fence{f, twin} {
				tx := f.begin(t, level)
				require.Equal(t, 1, get[int](t, f, tx, "SELECT count(*) FROM fence.marks"))
				require.Equal(t, 1, f.prune(t, 10))
				require.NoError(t, f.admit(ctx, f, "account/42", 11, "b"))
				err := f.admit(ctx, tx, "account/42", 5, "a")
				if f == twin {
					require.NoError(t, err, "the twin shows nothing: it must admit the stale token")
					continue
				}
				require.Equal(t, "40001", code(err))
			}
		})
		t.Run("while it waits under "+string(level), func(t *testing.T) {
			t.Parallel()
			f, ctx := own(t), t.Context()
			tx, pruner := f.begin(t, level), f.begin(t, pgx.ReadCommitted)
			require.Equal(t, 1, get[int](t, f, pruner, "SELECT fence.prune(10)"))
			wait := later(t, func() error { return f.admit(ctx, tx, "account/42", 5, "a") })
			f.blocked(t, tx.Conn())
			require.NoError(t, pruner.Commit(ctx))
			require.Equal(t, "40001", code(wait()))
		})
		t.Run("before the snapshot of "+string(level), func(t *testing.T) {
			t.Parallel()
			f := pruned(t)
			refused(t, f.admit(t.Context(), f.begin(t, level), "account/42", 5, "a"), "ZF001", "10 ")
			refused(t, f.admit(t.Context(), f.begin(t, level), "account/42", 10, "a"), "ZF004", "")
		})
		t.Run("not, if it was admitted under "+string(level), func(t *testing.T) {
			t.Parallel()
			f, ctx := own(t), t.Context()
			tx := f.begin(t, level)
			require.NoError(t, f.admit(ctx, tx, "account/42", 5, "a"))
			require.Zero(t, f.prune(t, 10))
			require.NoError(t, f.admit(ctx, tx, "account/42", 5, "a"))
			require.NoError(t, tx.Commit(ctx))
		})
	}
	for function, call := range map[string]string{
		"admit": "SELECT fence.admit('account/42', 5, 'a')", "admit_slow": "SELECT fence.admit_slow('account/42', 5, 'a', 0)",
	} {
		t.Run("while it waits in "+function, func(t *testing.T) {
			t.Parallel()
			f, ctx := own(t), t.Context()
			tx, pruner := f.begin(t, pgx.ReadCommitted), f.begin(t, pgx.ReadCommitted)
			require.Equal(t, 1, get[int](t, f, pruner, "SELECT fence.prune(10)"))
			wait := later(t, func() error { return f.exec(ctx, tx, call) })
			f.blocked(t, tx.Conn())
			require.NoError(t, pruner.Commit(ctx))
			refused(t, wait(), "ZF001", "10 ")
		})
		t.Run("not, if the pruning is rolled back while it waits in "+function, func(t *testing.T) {
			t.Parallel()
			f, ctx := own(t), t.Context()
			tx, pruner := f.begin(t, pgx.ReadCommitted), f.begin(t, pgx.ReadCommitted)
			require.Equal(t, 1, get[int](t, f, pruner, "SELECT fence.prune(10)"))
			wait := later(t, func() error { return f.exec(ctx, tx, call) })
			f.blocked(t, tx.Conn())
			require.NoError(t, pruner.Rollback(ctx))
			require.NoError(t, wait())
		})
	}
}
