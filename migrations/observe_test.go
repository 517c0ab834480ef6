package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestObserve(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	observe := func(t *testing.T, on db, number int64, holder string) error {
		t.Helper()
		var n int64
		var h string
		err := on.QueryRow(ctx, f.sql("SELECT number, holder FROM fence.observe($1, $2, $3)"), t.Name(), number, holder).Scan(&n, &h)
		if err == nil {
			require.Equal(t, int64(6), n)
			require.Equal(t, "b b", h)
		}
		return err
	}
	t.Run("admits like admit, and returns no row", func(t *testing.T) {
		t.Parallel()
		tx := f.begin(t, pgx.ReadCommitted)
		require.ErrorIs(t, observe(t, tx, 6, "b b"), pgx.ErrNoRows)
		require.ErrorIs(t, observe(t, tx, 6, "b b"), pgx.ErrNoRows)
		require.Equal(t, "\n"+f.schema+"/"+t.Name()+"\n", get[string](t, f, tx, "SELECT current_setting('fencepost.admitted')"))

		newer := f.begin(t, pgx.ReadCommitted)
		wait := later(t, func() error { return f.admit(ctx, newer, t.Name(), 7, "c") })
		f.blocked(t, newer.Conn())
		require.NoError(t, tx.Commit(ctx))
		require.NoError(t, wait())
	})
	t.Run("returns the mark to a stale token and to a collision, and the transaction goes on", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, f.admit(ctx, f, t.Name(), 6, "b b"))
		tx := f.begin(t, pgx.ReadCommitted)
		require.NoError(t, observe(t, tx, 5, "a"))
		require.NoError(t, observe(t, tx, 6, "a"))
		require.NoError(t, f.exec(ctx, tx, "SELECT 1"))
		require.Empty(t, get[string](t, f, tx, "SELECT coalesce(current_setting('fencepost.admitted', true), '')"))
		require.NoError(t, f.admit(ctx, f, t.Name(), 7, "c"), "who was not admitted holds nobody up")
		require.NoError(t, tx.Commit(ctx))
	})
	t.Run("answers no number where it could not judge in time, and the transaction goes on", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, f.admit(ctx, f.begin(t, pgx.ReadCommitted), t.Name(), 5, "a"))
		tx := f.begin(t, pgx.ReadCommitted)
		require.Equal(t, "0 ''", get[string](t, f, tx, "SELECT number || ' ' || quote_literal(holder) FROM fence.observe($1, 6, 'b', 20)", t.Name()))
		require.Equal(t, "0", get[string](t, f, tx, "SHOW lock_timeout"))
		require.Empty(t, get[string](t, f, tx, "SELECT coalesce(current_setting('fencepost.admitted', true), '')"))
		require.NoError(t, tx.Commit(ctx))
	})
	t.Run("does not hide that the snapshot is fixed", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "ZF004", code(f.exec(ctx, f.begin(t, pgx.Serializable), "SELECT fence.observe($1, 6, 'b')", t.Name())))
	})
}
