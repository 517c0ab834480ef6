package sqlguard_test

import (
	"strings"

	"github.com/stretchr/testify/require"
)

// mutate breaks a function of this test's schema: it replaces a piece of the
// text that must be there, pairs of old and new.
func (e *env) mutate(function string, oldnew ...string) {
	e.t.Helper()
	text := query[string](e, "SELECT pg_get_functiondef(p.oid) FROM pg_proc p WHERE p.proname = $1 AND p.pronamespace = to_regnamespace($2)", function, e.schema)
	for i := 0; i < len(oldnew); i += 2 {
		require.Contains(e.t, text, oldnew[i], "the mutant no longer fits %s", function)
		text = strings.ReplaceAll(text, oldnew[i], oldnew[i+1])
	}
	_, err := e.pool.Exec(e.t.Context(), text)
	require.NoError(e.t, err)
}
