package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// What is in use stays, though the floor is above it.
func TestPruneLeaves(t *testing.T) {
	t.Parallel()
	t.Run("the mark of a writer", func(t *testing.T) {
		t.Parallel()
		f := marked(t, 2)
		writer := f.begin(t, pgx.ReadCommitted)
		require.NoError(t, f.admit(t.Context(), writer, "account/1", 1, "a"))
		require.Equal(t, 1, f.prune(t, 10))
		require.NoError(t, f.admit(t.Context(), writer, "account/1", 1, "a"))
		require.NoError(t, writer.Commit(t.Context()))
		require.NoError(t, f.admit(t.Context(), f, "account/1", 1, "a"), "its mark is there")
		require.Equal(t, 1, f.prune(t, 10))
	})
	t.Run("the mark that somebody raises", func(t *testing.T) {
		t.Parallel()
		f := marked(t, 1)
		raiser := f.begin(t, pgx.ReadCommitted)
		require.NoError(t, f.admit(t.Context(), raiser, "account/1", 20, "b"))
		require.Zero(t, f.prune(t, 10))
		require.NoError(t, raiser.Rollback(t.Context()))
		require.Equal(t, 1, f.prune(t, 10))
	})
	t.Run("the mark of a lease that lives", func(t *testing.T) {
		t.Parallel()
		f := marked(t, 2)
		ctx := t.Context()
		require.NoError(t, f.exec(ctx, f, "INSERT INTO fence.leases VALUES ('account/1', 1, 'a', now() + interval '1 hour'), ('account/2', 2, 'a', now())"))
		require.Equal(t, 1, f.prune(t, 10))
		require.NoError(t, f.admit(ctx, f, "account/1", 1, "a"))
		refused(t, f.admit(ctx, f, "account/2", 2, "a"), "ZF001", "10 ")
		require.NoError(t, f.exec(ctx, f, "SELECT fence.release('account/1', 'a')"))
		require.Equal(t, 1, f.prune(t, 10))
	})
	t.Run("not the mark below a lease that the floor admits", func(t *testing.T) {
		t.Parallel()
		f := marked(t, 1)
		require.NoError(t, f.exec(t.Context(), f, "INSERT INTO fence.leases VALUES ('account/1', 10, 'b', now() + interval '1 hour')"))
		require.Equal(t, 1, f.prune(t, 10))
		require.NoError(t, f.admit(t.Context(), f, "account/1", 10, "b"))
	})
	t.Run("the mark that was raised since a fixed snapshot", func(t *testing.T) {
		t.Parallel()
		for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
			f := marked(t, 1)
			tx := f.begin(t, level)
			require.Equal(t, 1, get[int](t, f, tx, "SELECT count(*) FROM fence.marks"))
			require.NoError(t, f.admit(t.Context(), f, "account/1", 20, "b"))
			require.Equal(t, "40001", code(f.exec(t.Context(), tx, "SELECT fence.prune(10)")))
			require.Zero(t, f.floor(t))
		}
	})
	t.Run("everything, where it is rolled back", func(t *testing.T) {
		t.Parallel()
		f := marked(t, 9)
		tx := f.begin(t, pgx.ReadCommitted)
		require.Equal(t, 9, get[int](t, f, tx, "SELECT fence.prune(10)"))
		require.NoError(t, tx.Rollback(t.Context()))
		require.Zero(t, f.floor(t))
		require.NoError(t, f.admit(t.Context(), f, "account/5", 5, "a"))
	})
	t.Run("nothing to a second one, which waits", func(t *testing.T) {
		t.Parallel()
		f := marked(t, 9)
		first, second := f.begin(t, pgx.ReadCommitted), f.begin(t, pgx.ReadCommitted)
		require.Equal(t, 5, get[int](t, f, first, "SELECT fence.prune(10, 5)"))
		gone := 0
		wait := later(t, func() error {
			return second.QueryRow(t.Context(), f.sql("SELECT fence.prune(10)")).Scan(&gone)
		})
		f.blocked(t, second.Conn())
		require.NoError(t, first.Commit(t.Context()))
		require.NoError(t, wait())
		require.Equal(t, 4, gone)
	})
}
