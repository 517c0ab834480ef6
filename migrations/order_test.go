package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// Who waits for whom.
func TestOrderOfAdmissions(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	t.Run("a newer token waits for the writers of the older one", func(t *testing.T) {
		t.Parallel()
		older, newer := f.begin(t, pgx.ReadCommitted), f.begin(t, pgx.ReadCommitted)
		require.NoError(t, f.admit(ctx, older, t.Name(), 5, "a"))
		wait := later(t, func() error { return f.admit(ctx, newer, t.Name(), 6, "b") })
		f.blocked(t, newer.Conn())
		require.NoError(t, older.Commit(ctx))
		require.NoError(t, wait())
	})
	t.Run("an older token that waited for the newer one is refused", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, f.admit(ctx, f, t.Name(), 5, "a"))
		older, newer := f.begin(t, pgx.ReadCommitted), f.begin(t, pgx.ReadCommitted)
		require.NoError(t, f.admit(ctx, newer, t.Name(), 6, "b"))
		wait := later(t, func() error { return f.admit(ctx, older, t.Name(), 5, "a") })
		f.blocked(t, older.Conn()) // it has seen its own mark by now, and waits for the lock
		require.NoError(t, newer.Commit(ctx))
		refused(t, wait(), "ZF001", "6 b")
	})
	t.Run("an older token that waited is admitted where the newer one gave up", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, f.admit(ctx, f, t.Name(), 5, "a"))
		older, newer := f.begin(t, pgx.ReadCommitted), f.begin(t, pgx.ReadCommitted)
		require.NoError(t, f.admit(ctx, newer, t.Name(), 6, "b"))
		wait := later(t, func() error { return f.admit(ctx, older, t.Name(), 5, "a") })
		f.blocked(t, older.Conn())
		require.NoError(t, newer.Rollback(ctx))
		require.NoError(t, wait())
	})
	t.Run("two first tokens come one after the other, and the older is refused", func(t *testing.T) {
		t.Parallel()
		older, newer := f.begin(t, pgx.ReadCommitted), f.begin(t, pgx.ReadCommitted)
		require.NoError(t, f.admit(ctx, newer, t.Name(), 6, "b"))
		wait := later(t, func() error { return f.admit(ctx, older, t.Name(), 5, "a") })
		f.blocked(t, older.Conn())
		require.NoError(t, newer.Commit(ctx))
		refused(t, wait(), "ZF001", "6 b")
	})
	// hazard G12
	t.Run("writers of one token do not wait for each other", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, f.admit(ctx, f, t.Name(), 5, "a"))
		for range 5 {
			require.NoError(t, f.admit(ctx, f.begin(t, pgx.ReadCommitted), t.Name(), 5, "a"))
		}
	})
	t.Run("two schemas do not wait for each other", func(t *testing.T) {
		t.Parallel()
		other := newFence(t)
		require.NoError(t, f.admit(ctx, f.begin(t, pgx.ReadCommitted), t.Name(), 5, "a"))
		require.NoError(t, other.admit(ctx, other, t.Name(), 6, "b"))
	})
	t.Run("two resources do not wait for each other", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, f.admit(ctx, f.begin(t, pgx.ReadCommitted), t.Name()+"/1", 5, "a"))
		require.NoError(t, f.admit(ctx, f, t.Name()+"/2", 5, "a"))
	})
}

// The same without the second read under the lock, as the naive twin, lets the
// older token in.
func TestAdmitReadsAgainUnderTheLock(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	require.NoError(t, f.exec(ctx, f, `CREATE FUNCTION fence.naive(r text, t bigint, h text) RETURNS boolean LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM pg_advisory_xact_lock_shared(fence.lock_key(r)) FROM fence.marks WHERE resource = r AND number = t AND holder = h;
			RETURN FOUND;
		END $$`))
	require.NoError(t, f.admit(ctx, f, "account/42", 5, "a"))
	older, naive, newer := f.begin(t, pgx.ReadCommitted), f.begin(t, pgx.ReadCommitted), f.begin(t, pgx.ReadCommitted)
	require.NoError(t, f.admit(ctx, newer, "account/42", 6, "b"))

	wait := later(t, func() error { return f.admit(ctx, older, "account/42", 5, "a") })
	admitted := false
	waitNaive := later(t, func() error {
		return naive.QueryRow(ctx, f.sql("SELECT fence.naive('account/42', 5, 'a')")).Scan(&admitted)
	})
	f.blocked(t, older.Conn())
	f.blocked(t, naive.Conn())
	require.NoError(t, newer.Commit(ctx))
	refused(t, wait(), "ZF001", "6 b")
	require.NoError(t, waitNaive())
	require.True(t, admitted, "the twin shows nothing")
}
