package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// hazard G21
func TestFloor(t *testing.T) {
	t.Parallel()
	t.Run("judges a resource whose mark was pruned", func(t *testing.T) {
		t.Parallel()
		f := pruned(t)
		refused(t, f.admit(t.Context(), f, "account/42", 5, "a"), "ZF001", "10 ")
		refused(t, f.admit(t.Context(), f, "account/42", 9, "c"), "ZF001", "10 ")
		require.Zero(t, get[int](t, f, f, "SELECT count(*) FROM fence.marks"), "a refusal has left a mark")
	})
	t.Run("admits a token that is equal to it, and what is newer", func(t *testing.T) {
		t.Parallel()
		f := pruned(t)
		require.NoError(t, f.admit(t.Context(), f, "account/42", 10, "c"))
		require.NoError(t, f.admit(t.Context(), f, "account/43", 11, "c"))
		refused(t, f.admit(t.Context(), f, "account/42", 9, "c"), "ZF001", "10 c")
		refused(t, f.admit(t.Context(), f, "account/42", 10, "d"), "ZF002", "10 c")
	})
	t.Run("judges a resource that never had a mark", func(t *testing.T) {
		t.Parallel()
		f := pruned(t)
		refused(t, f.admit(t.Context(), f, "account/new", 9, "a"), "ZF001", "10 ")
	})
	t.Run("does not judge where there is a mark, were it below", func(t *testing.T) {
		t.Parallel()
		f := newFence(t)
		ctx := t.Context()
		require.NoError(t, f.admit(ctx, f, "account/42", 5, "a"))
		require.NoError(t, f.exec(ctx, f, "UPDATE fence.floor SET number = 10"))
		require.NoError(t, f.admit(ctx, f, "account/42", 5, "a"))
		require.NoError(t, f.admit(ctx, f, "account/42", 7, "b"))
		refused(t, f.admit(ctx, f, "account/42", 6, "c"), "ZF001", "7 b")
	})
	t.Run("does not hide what is no token", func(t *testing.T) {
		t.Parallel()
		f := pruned(t)
		require.Equal(t, "23514", code(f.admit(t.Context(), f, "account/42", 0, "a")))
		require.Equal(t, "23514", code(f.admit(t.Context(), f, "account/42", -1, "a")))
		require.Equal(t, "23502", code(f.exec(t.Context(), f, "SELECT fence.admit('account/42', NULL, 'a')")))
	})
	t.Run("refuses rather than wait, where there is nothing to wait for", func(t *testing.T) {
		t.Parallel()
		f := pruned(t)
		require.NoError(t, f.admit(t.Context(), f.begin(t, pgx.ReadCommitted), "account/42", 11, "c"))
		refused(t, f.exec(t.Context(), f, "SELECT fence.admit('account/42', 5, 'a', -1)"), "ZF001", "10 ")
	})
	t.Run("refuses everything where somebody has deleted it", func(t *testing.T) {
		t.Parallel()
		f := newFence(t)
		require.NoError(t, f.exec(t.Context(), f, "DELETE FROM fence.floor"))
		refused(t, f.admit(t.Context(), f, "account/42", 5, "a"), "ZF001", "0 ")
		require.Equal(t, "0 ''", get[string](t, f, f, "SELECT number || ' ' || quote_literal(holder) FROM fence.observe('account/42', 5, 'a')"), "as what was not judged")
	})
	t.Run("is one row, of a number", func(t *testing.T) {
		t.Parallel()
		f := newFence(t)
		require.Equal(t, "23505", code(f.exec(t.Context(), f, "INSERT INTO fence.floor DEFAULT VALUES")))
		require.Equal(t, "23514", code(f.exec(t.Context(), f, "INSERT INTO fence.floor VALUES (false, 1)")))
		require.Equal(t, "23514", code(f.exec(t.Context(), f, "UPDATE fence.floor SET number = -1")))
		require.Equal(t, "p", get[string](t, f, f, "SELECT relpersistence::text FROM pg_class WHERE oid = $1::text::regclass", f.sql("fence.floor")))
	})
}

// pruned is a fence that has forgotten the mark of account/42, token (6, b),
// under a floor of 10.
func pruned(t *testing.T) fence {
	t.Helper()
	f := newFence(t)
	require.NoError(t, f.admit(t.Context(), f, "account/42", 6, "b"))
	require.Equal(t, 1, get[int](t, f, f, "SELECT fence.prune(10)"))
	return f
}

// What else asks for the mark asks the floor too.
func TestFloorOfTheOtherFunctions(t *testing.T) {
	t.Parallel()
	const high = 900_000_000_000_000 // as another server's clock may have raised it
	raised := func(t *testing.T) fence {
		f := newFence(t)
		require.NoError(t, f.exec(t.Context(), f, "UPDATE fence.floor SET number = $1", int64(high)))
		return f
	}
	t.Run("observe tells it as the mark", func(t *testing.T) {
		t.Parallel()
		f := pruned(t)
		tx := f.begin(t, pgx.ReadCommitted)
		require.Equal(t, "10 ''", get[string](t, f, tx, "SELECT number || ' ' || quote_literal(holder) FROM fence.observe('account/42', 5, 'a')"))
		require.Zero(t, get[int](t, f, tx, "SELECT count(*) FROM fence.observe('account/42', 10, 'a')"))
	})
	t.Run("mint goes above it", func(t *testing.T) {
		t.Parallel()
		f := raised(t)
		require.Equal(t, int64(high+1), get[int64](t, f, f, "SELECT fence.mint('account/42', 'a')"))
		require.NoError(t, f.admit(t.Context(), f, "account/42", high+1, "a"))
	})
	t.Run("what acquire grants is admitted", func(t *testing.T) {
		t.Parallel()
		f := raised(t)
		n := get[int64](t, f, f, "SELECT number FROM fence.acquire('account/42', 'a', '1 minute')")
		require.GreaterOrEqual(t, n, int64(high))
		require.NoError(t, f.admit(t.Context(), f, "account/42", n, "a"))
		require.NoError(t, f.exec(t.Context(), f, "UPDATE fence.leases SET number = 1, expires_at = now()"))
		require.GreaterOrEqual(t, get[int64](t, f, f, "SELECT number FROM fence.acquire('account/43', 'b', '1 minute')"), int64(high))
	})
	t.Run("evict ends nobody for a token below it", func(t *testing.T) {
		t.Parallel()
		f := pruned(t)
		tx := f.begin(t, pgx.ReadCommitted)
		require.NoError(t, f.exec(t.Context(), tx, "SELECT pg_advisory_xact_lock_shared(fence.lock_key('account/42'))"))
		require.Zero(t, get[int](t, f, f, "SELECT fence.evict('account/42', 9)"))
	})
}
