package migrations_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// hazard G9
// hazard G21
func TestRoleOfTheApplicationCannotForgetMarks(t *testing.T) {
	t.Parallel()
	f := marked(t, 9)
	conn := asRole(t, f, "GRANT USAGE ON SCHEMA "+f.schema)
	require.NoError(t, f.exec(t.Context(), conn, "SELECT fence.number_at(now())"))
	for _, mayNot := range []string{
		"SELECT fence.prune(10)", "SELECT fence.prune(10, 1)", "SELECT fence.reset('account/1')", "SELECT fence.reset('account/1', 1)",
		"SELECT * FROM fence.floor", "UPDATE fence.floor SET number = 0", "DELETE FROM fence.floor", "TRUNCATE fence.floor",
		"INSERT INTO fence.floor DEFAULT VALUES", "DROP TABLE fence.floor", "ALTER TABLE fence.floor SET UNLOGGED",
		"DELETE FROM fence.marks", "UPDATE fence.marks SET number = 1", "TRUNCATE fence.marks",
	} {
		require.Equal(t, "42501", code(f.exec(t.Context(), conn, mayNot)), mayNot)
	}
	require.Equal(t, 9, get[int](t, f, f, "SELECT count(*) FROM fence.marks"))
	require.Zero(t, f.floor(t))
}

// The grants that 00010_prune.sql names, one each.
func TestRolesOfOperators(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ grant, may, mayNot string }{
		"who prunes":  {"EXECUTE ON FUNCTION fence.prune(bigint, integer)", "SELECT fence.prune(fence.number_at(now() - interval '30 days'))", "SELECT fence.reset('account/1', 1)"},
		"who resets":  {"EXECUTE ON FUNCTION fence.reset(text, bigint)", "SELECT fence.reset('account/1', 1)", "SELECT fence.prune(1)"},
		"who watches": {"SELECT ON fence.marks, fence.floor", "SELECT * FROM fence.marks, fence.floor", "SELECT fence.prune(1)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := marked(t, 1)
			conn := asRole(t, f, "GRANT USAGE ON SCHEMA "+f.schema)
			require.NoError(t, f.exec(t.Context(), f, "GRANT "+c.grant+" TO "+f.schema+"_role"))
			require.NoError(t, f.exec(t.Context(), conn, c.may))
			require.Equal(t, "42501", code(f.exec(t.Context(), conn, c.mayNot)))
			require.Equal(t, "42501", code(f.exec(t.Context(), conn, "DELETE FROM fence.marks")))
			require.Equal(t, "42501", code(f.exec(t.Context(), conn, "UPDATE fence.floor SET number = 0")))
		})
	}
}
