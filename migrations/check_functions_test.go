package migrations_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// called are the functions that the library calls, and what those call with the
// caller's rights.
func called(t *testing.T) []string {
	t.Helper()
	names := []string{"lock_key", "mark_number", "refusing", "version"}
	for _, pattern := range []string{"../sqlguard/*.sql", "../sqlguard/stdsql/*.sql", "../sqlguard/stdsql/*.go", "../token/pgtoken/*.sql"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, call := range regexp.MustCompile(`(?:"fencepost"|\{schema\})\.([a-z_]+)\(`).FindAllStringSubmatch(string(text), -1) {
				names = append(names, call[1])
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func TestCheckMissesNoFunction(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	db := application(t, f)
	names := called(t)
	require.Subset(t, names, []string{"admit", "ask"})
	for _, name := range names {
		require.NoError(t, f.exec(t.Context(), f, "ALTER FUNCTION fence."+name+" RENAME TO gone"))
		findings := checked(t, f, db)
		require.Len(t, findings, 1, name)
		if name != "version" { // then it looks like an older one
			require.Contains(t, findings[0], "function fence."+name+"(")
			require.Contains(t, findings[0], ") is not there: make it again, as fencepost migrate print does")
		}
		require.NoError(t, f.exec(t.Context(), f, "ALTER FUNCTION fence.gone RENAME TO "+name))
	}
	require.Empty(t, checked(t, f, db))
}

// What writers must not execute is what runs as the owner, and is not for them.
func TestCheckKnowsWhatIsReserved(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	db := application(t, f)
	reserved := strings.Fields(one[string](t, db, `SELECT string_agg(proname, ' ') FROM pg_proc
		WHERE pronamespace = $1::text::regnamespace AND prosecdef AND NOT proname = ANY ($2)`, f.schema, called(t)))
	require.NotEmpty(t, reserved)
	require.NoError(t, f.exec(t.Context(), f, "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA "+f.schema+" TO PUBLIC"))
	findings := checked(t, f, db)
	require.Len(t, findings, len(reserved))
	for _, name := range reserved {
		require.Contains(t, strings.Join(findings, "\n"), "everybody may execute function fence."+name+"(")
	}
}
