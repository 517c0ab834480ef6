package migrations_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/migrations"
)

// A schema of an earlier state of the same version has functions with another body. They
// are replaced, and no mark is lost.
func TestCheckFindsAnotherBody(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	db := application(t, f)
	script, err := migrations.Set{Schema: f.schema}.SQL()
	require.NoError(t, err)
	printed := func(function string) string {
		_, text, found := strings.Cut(script, `CREATE FUNCTION "`+f.schema+`".`+function+"(")
		require.True(t, found)
		text, _, _ = strings.Cut(text, "$fencepost$;")
		return `CREATE OR REPLACE FUNCTION "` + f.schema + `".` + function + "(" + text + "$fencepost$"
	}
	replace := func(text string) { t.Helper(); require.NoError(t, f.exec(t.Context(), f, text)) }
	earlier := strings.Replace(printed("evict"), "AND a.wait_event IS DISTINCT FROM 'SyncRep'", "", 1)
	require.NotEqual(t, printed("evict"), earlier)

	replace(earlier)
	require.Equal(t, []string{"function fence.evict(text, bigint) is another than this program's: " +
		"replace it with that of fencepost migrate print, as CREATE OR REPLACE FUNCTION"}, checked(t, f, db))
	replace("CREATE OR REPLACE FUNCTION fence.version() RETURNS integer LANGUAGE sql AS 'SELECT 1000'")
	require.Empty(t, checked(t, f, db), "a newer database may have other bodies")
	replace(printed("version"))
	require.Len(t, checked(t, f, db), 1)
	replace(printed("evict"))
	require.Empty(t, checked(t, f, db))
}
