package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// hazard G7
// hazard G23
func TestAdmitUnderAFixedSnapshot(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			t.Run("a first token must be claimed before the snapshot", func(t *testing.T) {
				t.Parallel()
				refused(t, f.admit(ctx, f.begin(t, level), t.Name(), 5, "a"), "ZF004", "")
				require.Zero(t, get[int](t, f, f, "SELECT count(*) FROM fence.marks WHERE resource = $1", t.Name()))
			})
			t.Run("a newer token must be claimed before the snapshot", func(t *testing.T) {
				t.Parallel()
				require.NoError(t, f.admit(ctx, f, t.Name(), 5, "a"))
				refused(t, f.admit(ctx, f.begin(t, level), t.Name(), 6, "b"), "ZF004", "")
				n, _ := f.mark(t, t.Name())
				require.Equal(t, int64(5), n)
			})
			t.Run("nor is anything minted", func(t *testing.T) {
				t.Parallel()
				refused(t, f.exec(ctx, f.begin(t, level), "SELECT fence.mint($1, 'a')", t.Name()), "ZF004", "")
			})
			t.Run("a claimed token is admitted, and its peers beside it", func(t *testing.T) {
				t.Parallel()
				require.NoError(t, f.admit(ctx, f, t.Name(), 5, "a"))
				for range 3 {
					tx := f.begin(t, level)
					require.NoError(t, f.admit(ctx, tx, t.Name(), 5, "a"))
					require.Contains(t, get[string](t, f, tx, "SELECT current_setting('fencepost.admitted')"), t.Name())
				}
			})
			t.Run("a stale token is refused", func(t *testing.T) {
				t.Parallel()
				require.NoError(t, f.admit(ctx, f, t.Name(), 6, "b"))
				refused(t, f.admit(ctx, f.begin(t, level), t.Name(), 5, "a"), "ZF001", "6 b")
				refused(t, f.admit(ctx, f.begin(t, level), t.Name(), 6, "a"), "ZF002", "6 b")
			})
			t.Run("a token that became stale since the snapshot is told to run again", func(t *testing.T) {
				t.Parallel()
				require.NoError(t, f.admit(ctx, f, t.Name(), 5, "a"))
				tx := f.begin(t, level)
				require.Equal(t, int64(5), get[int64](t, f, tx, "SELECT number FROM fence.marks WHERE resource = $1", t.Name()))
				require.NoError(t, f.admit(ctx, f, t.Name(), 6, "b"))
				require.Equal(t, int64(5), get[int64](t, f, tx, "SELECT number FROM fence.marks WHERE resource = $1", t.Name()), "the twin: a plain read sees the old mark")
				require.Equal(t, "40001", code(f.admit(ctx, tx, t.Name(), 5, "a")))
			})
			t.Run("a token that becomes stale while it waits is told to run again", func(t *testing.T) {
				t.Parallel()
				require.NoError(t, f.admit(ctx, f, t.Name(), 5, "a"))
				newer, tx := f.begin(t, pgx.ReadCommitted), f.begin(t, level)
				require.NoError(t, f.admit(ctx, newer, t.Name(), 6, "b"))
				wait := later(t, func() error { return f.admit(ctx, tx, t.Name(), 5, "a") })
				f.blocked(t, tx.Conn())
				require.NoError(t, newer.Commit(ctx))
				require.Equal(t, "40001", code(wait()))
			})
		})
	}
	t.Run("READ UNCOMMITTED, which PostgreSQL runs as READ COMMITTED, may raise", func(t *testing.T) {
		t.Parallel()
		tx := f.begin(t, pgx.ReadUncommitted)
		require.NoError(t, f.admit(ctx, tx, t.Name(), 5, "a"))
		require.NoError(t, f.admit(ctx, tx, t.Name(), 5, "a"))
		require.NoError(t, tx.Commit(ctx))
	})
}
