package migrations_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// hazard G14
func TestNumbersCompareAsNumbers(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	require.NoError(t, f.admit(ctx, f, "account/42", 9, "a"))
	require.NoError(t, f.admit(ctx, f, "account/42", 10, "b"))
	refused(t, f.admit(ctx, f, "account/42", 9, "a"), "ZF001", "10 b")

	require.NoError(t, f.exec(ctx, f, "CREATE TABLE fence.naive (number text); INSERT INTO fence.naive VALUES ('10')"))
	tag, err := f.Exec(ctx, f.sql("UPDATE fence.naive SET number = '9' WHERE number < '9'"))
	require.NoError(t, err)
	require.Equal(t, int64(1), tag.RowsAffected(), "the twin shows nothing: as text, 9 is newer than 10")
}

func TestNamesCompareBytewise(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	require.NoError(t, f.exec(t.Context(), f, "CREATE COLLATION fence.loose (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"))
	names := []string{"account/42", "account/42 ", "Account/42", "account/４２", "gro\u00dfe", "grosse", "e\u0301", "\u00e9"}
	for i, name := range names {
		require.NoError(t, f.admit(t.Context(), f, name, int64(i+1), "a"), "%q", name)
	}
	for i, name := range names {
		n, _ := f.mark(t, name)
		require.Equal(t, int64(i+1), n, "%q", name)
	}
	require.Equal(t, len(names), get[int](t, f, f, "SELECT count(DISTINCT fence.lock_key(resource)) FROM fence.marks"))
	require.True(t, get[bool](t, f, f, "SELECT fence.lock_key('Account/42' COLLATE fence.loose) <> fence.lock_key('account/42' COLLATE fence.loose)"))
	require.Equal(t, "42P22", code(f.exec(t.Context(), f, "SELECT fence.admit('account/42', 1, 'A' COLLATE fence.loose)")), "a caller cannot loosen it")
}

// hazard G9
func TestMarksAreLogged(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	require.Equal(t, "p {fillfactor=50}", get[string](t, f, f,
		"SELECT concat_ws(' ', relpersistence, reloptions::text) FROM pg_class WHERE oid = $1::text::regclass", f.sql("fence.marks")))
}
