package migrations_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRightsOfProtect(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	ctx := t.Context()
	conn := asRole(t, f, "GRANT USAGE ON SCHEMA "+f.schema)
	app := f.named("fence.app")
	run(t, f, f, "CREATE SCHEMA "+app)
	f.atEnd(t, "DROP SCHEMA "+app+" CASCADE")
	run(t, f, f, "CREATE TABLE "+app+".accounts (id int)")
	protect := "SELECT fence.protect('" + app + ".accounts', 'id::text')"
	refuse := func(text, says string) {
		t.Helper()
		err := f.exec(ctx, conn, text)
		require.Equal(t, "42501", code(err), text)
		require.ErrorContains(t, err, says)
	}
	run(t, f, f, f.named("GRANT USAGE ON SCHEMA fence.app TO fence.role; GRANT ALL ON fence.app.accounts TO fence.role"))
	refuse(protect, "fencepost: protect: must be owner of table "+app+".accounts")
	refuse("SELECT fence.unprotect('fence.accounts')", "fencepost: unprotect: must be owner of table "+f.schema+".accounts")
	refuse("SELECT fence.bypass('fence.accounts', 'x')", "fencepost: bypass: must be owner of table "+f.schema+".accounts")
	run(t, f, f, f.named("ALTER TABLE fence.app.accounts OWNER TO fence.role"))
	refuse(protect, "fencepost: protect: no CREATE on schema "+app)
	run(t, f, f, f.named("GRANT CREATE ON SCHEMA fence.app TO fence.role"))
	run(t, f, conn, protect)
	run(t, f, conn, "SELECT fence.bypass('"+app+".accounts', 'x'), fence.unprotect('"+app+".accounts')")

	run(t, f, f, protect) // by a superuser, for the owner
	run(t, f, conn, "SELECT fence.protect('"+app+".accounts', '''x''', 'observe')")
	require.Equal(t, 2, get[int](t, f, conn, "SELECT count(*) FROM fence.protected()"), "anybody may ask what is protected")
	require.True(t, get[bool](t, f, conn, "SELECT fence.unprotect('"+app+".accounts')"))
}

// Whoever forgets the guard may have no rights on its schema at all.
func TestWriterWithoutRightsIsRefusedAsEverybody(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	conn := asRole(t, f, "")
	app := f.named("fence.app")
	run(t, f, f, "CREATE SCHEMA "+app)
	f.atEnd(t, "DROP SCHEMA "+app+" CASCADE")
	run(t, f, f, f.named("CREATE TABLE fence.app.accounts (id int); GRANT USAGE ON SCHEMA fence.app TO fence.role; GRANT ALL ON fence.app.accounts TO fence.role"))
	f.protect(t, app+".accounts", account)
	for _, write := range []string{"INSERT INTO " + app + ".accounts VALUES (42)", "TRUNCATE " + app + ".accounts"} {
		unguarded(t, f.exec(t.Context(), conn, write))
	}
	require.Equal(t, "42501", code(f.exec(t.Context(), conn, "SELECT fence.protect('"+app+".accounts', 'x')")))
}

func TestTablesThatCannotBeProtected(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	conn := f.conn(t)
	run(t, f, conn, "CREATE VIEW fence.view AS SELECT FROM fence.accounts; CREATE MATERIALIZED VIEW fence.matview AS SELECT 1 AS id; CREATE TEMP TABLE temporary (id int); CREATE INDEX accounts_i ON fence.accounts (id)")
	for tab, c := range map[string]struct{ code, says string }{
		"fence.view": {"42809", "is no permanent table"}, "fence.matview": {"42809", "is no permanent table"}, "temporary": {"42809", "is no permanent table"},
		"fence.accounts_i": {"42809", "is no permanent table"}, "fence.nothing": {"42P01", `does not exist`},
	} {
		err := f.exec(t.Context(), conn, "SELECT fence.protect($1::text::regclass, '''x''')", f.sql(tab))
		require.Equal(t, c.code, code(err), tab)
		require.ErrorContains(t, err, c.says)
	}
	for _, call := range []string{"protect(NULL, 'x')", "unprotect(NULL)", "bypass(NULL, 'x')"} {
		err := f.exec(t.Context(), conn, "SELECT fence."+call)
		require.Equal(t, "42P01", code(err), call)
		require.ErrorContains(t, err, "there is no such table")
	}
	require.False(t, get[bool](t, f, conn, "SELECT fence.unprotect('fence.plain')"), "nothing to take off")
}
