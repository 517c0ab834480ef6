package migrations_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPruneUnits(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	for _, unit := range []string{"'old/1', sha256(''), '-1 s'", "'old/2', sha256(''), '-1 s'", "'new', sha256(''), '1 hour'"} {
		require.NoError(t, f.exec(t.Context(), f, "SELECT fence.insert_unit('account/42', "+unit+")"))
	}
	require.Equal(t, 1, get[int](t, f, f, "SELECT fence.prune_units(1)"))
	require.Equal(t, 1, get[int](t, f, f, "SELECT fence.prune_units()"))
	require.Zero(t, get[int](t, f, f, "SELECT fence.prune_units()"))
	require.Equal(t, "new", get[string](t, f, f, "SELECT string_agg(key, ' ') FROM fence.units"))
}

// A repeat neither extends a unit nor replaces its result, and a result that is set once
// stays.
func TestAUnitIsInsertedOnce(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	insert := "SELECT coalesce(encode(fence.insert_unit('account/42', 'k', sha256('a'), '1 hour'), 'escape'), 'inserted')"
	require.Equal(t, "inserted", get[string](t, f, f, insert))
	kept := get[string](t, f, f, "SELECT kept_until::text FROM fence.units")
	require.NoError(t, f.exec(t.Context(), f, "SELECT fence.set_result('account/42', 'k', 'first')"))
	require.NoError(t, f.exec(t.Context(), f, "SELECT fence.set_result('account/42', 'k', 'second')"))
	require.Equal(t, "\x01first", get[string](t, f, f, insert))
	require.Equal(t, "", get[string](t, f, f, "SELECT encode(fence.find_unit('account/42', 'k', sha256('b')), 'escape')"))
	require.Equal(t, kept, get[string](t, f, f, "SELECT kept_until::text FROM fence.units"))
	require.Equal(t, "25000", code(f.exec(t.Context(), f, "SELECT fence.set_result('account/43', 'k', 'x')")))
	require.True(t, get[bool](t, f, f, "SELECT fence.find_unit('account/43', 'k', sha256('a')) IS NULL"))
}
