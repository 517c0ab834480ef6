package migrations_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"
)

// dumped is a fence with protected tables of all kinds, to be restored in a
// database of its own.
func dumped(t *testing.T) (f fence, into *sql.DB, name string) {
	t.Helper()
	f = newPartitions(t)
	run(t, f, f, `CREATE TABLE fence.accounts (id int PRIMARY KEY, writer text); INSERT INTO fence.accounts VALUES (42, ''), (43, '');
		CREATE TABLE fence."we'ird" (id int); SELECT fence.protect('fence.accounts', $$'account/' || id -- the fence is the name$$), fence.protect('fence."we''ird"', '''x''', 'observe')`)
	require.NoError(t, f.admit(t.Context(), f, "account/42", 5, "a"))
	into = newDatabase(t)
	return f, into, one[string](t, into, "SELECT current_database()")
}

// restored checks that a database has what f has: the rows, the marks, and
// tables that are protected.
func restored(t *testing.T, f fence, db *sql.DB) {
	t.Helper()
	require.Equal(t, 2, one[int](t, db, f.sql("SELECT count(*) FROM fence.accounts")))
	require.Equal(t, 6, one[int](t, db, f.sql("SELECT count(*) FROM fence.jobs")))
	require.Equal(t, int64(5), one[int64](t, db, f.sql("SELECT number FROM fence.marks WHERE resource = 'account/42'")))
	const protected = "SELECT string_agg(concat_ws(' ', tab, resource, mode, incomplete), '; ' ORDER BY tab::text) FROM fence.protected()"
	require.Equal(t, get[string](t, f, f, protected), one[string](t, db, f.sql(protected)))

	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer tx.Rollback()
	exec := func(text string) error {
		_, err := tx.ExecContext(t.Context(), f.sql(text))
		return err
	}
	require.NoError(t, exec("SAVEPOINT a"))
	for _, forgotten := range []string{write42, "UPDATE fence.south SET n = 1", "TRUNCATE fence.west1", "TRUNCATE fence.jobs"} {
		unguarded(t, exec(forgotten))
		require.NoError(t, exec("ROLLBACK TO a"))
	}
	require.Equal(t, "ZF001", code(exec("SELECT fence.admit('account/42', 4, 'late')")))
	require.NoError(t, exec("ROLLBACK TO a; SELECT fence.admit('account/42', 5, 'a')"))
	require.NoError(t, exec(write42))
}

func TestDumpOfProtectedTables(t *testing.T) {
	t.Parallel()
	f, db, name := dumped(t)
	said := f.script(t, "pg_dump -n "+f.schema+" | psql -q -v ON_ERROR_STOP=1 -o /dev/null -d "+name+" || echo failed")
	require.Empty(t, said)
	restored(t, f, db)
}

func TestDumpOfDataIntoProtectedTables(t *testing.T) {
	t.Parallel()
	f, db, name := dumped(t)
	psql := " | psql -q -v ON_ERROR_STOP=1 -o /dev/null -d " + name + " || echo failed"
	require.Empty(t, f.script(t, "pg_dump --schema-only -n "+f.schema+psql))

	said := f.script(t, "pg_dump --data-only -n "+f.schema+" | psql -q -v ON_ERROR_STOP=1 -1 -o /dev/null -d "+name+" || echo failed")
	require.Contains(t, said, "fencepost: unguarded INSERT of protected table "+f.schema+".")
	require.Contains(t, said, "failed")
	require.Zero(t, one[int](t, db, f.sql("SELECT count(*) FROM fence.accounts")))

	require.Empty(t, f.script(t, "pg_dump --data-only --disable-triggers -n "+f.schema+psql))
	restored(t, f, db)
}

// Where the functions of the schema were not restored, a protected table still
// refuses: its trigger needs none of them.
func TestDumpOfAProtectedTableAlone(t *testing.T) {
	t.Parallel()
	f, db, name := dumped(t)
	app := f.named("fence.app")
	run(t, f, f, "CREATE SCHEMA "+app+"; CREATE TABLE "+app+".accounts (id int, writer text); INSERT INTO "+app+".accounts VALUES (42, '')")
	f.atEnd(t, "DROP SCHEMA "+app+" CASCADE")
	f.protect(t, app+".accounts", account)
	require.Empty(t, f.script(t, "pg_dump -n "+app+" | psql -q -v ON_ERROR_STOP=1 -o /dev/null -d "+name+" || echo failed"))
	_, err := db.ExecContext(context.WithoutCancel(t.Context()), "UPDATE "+app+".accounts SET writer = 'x'")
	unguarded(t, err)
}
