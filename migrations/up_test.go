package migrations_test

import (
	"context"
	"database/sql"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/migrations"
)

// applied is how many versions a complete database has, with goose's 0.
func applied(t *testing.T, set migrations.Set) int {
	t.Helper()
	files, err := set.FS()
	require.NoError(t, err)
	names, err := fs.Glob(files, "*.sql")
	require.NoError(t, err)
	return len(names) + 1
}

func TestUp(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string][]string{
		"makes the schema fencepost":                         nil,
		"works where SERIALIZABLE is the default":            {"default_transaction_isolation=serializable"},
		"works where the search_path is empty":               {"search_path="},
		"works where backslashes escape in string constants": {"standard_conforming_strings=off", "backslash_quote=off"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, settings...)
			db.SetMaxOpenConns(1) // Up must not wait for a second connection
			for range 3 {
				require.NoError(t, migrations.Up(t.Context(), db))
			}
			require.Equal(t, applied(t, migrations.Set{}), one[int](t, db, "SELECT count(*) FROM fencepost.fencepost_migrations"))
			_, err := db.ExecContext(t.Context(), "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT fencepost.admit('account/42', 5, 'a'); COMMIT")
			require.NoError(t, err)
			require.Equal(t, int64(5), one[int64](t, db, "SELECT number FROM fencepost.marks"))
		})
	}
}

func TestUpOfSQLite(t *testing.T) {
	t.Parallel()
	db, _ := newSQLite(t)
	db.SetMaxOpenConns(1)
	set := migrations.Set{Dialect: migrations.SQLite}
	for range 3 {
		require.NoError(t, set.Up(t.Context(), db))
	}
	require.Equal(t, applied(t, set), one[int](t, db, "SELECT count(*) FROM fencepost_migrations"))
	require.Zero(t, one[int](t, db, "SELECT count(*) FROM fencepost_marks"))
}

func TestUpKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	require.NoError(t, f.admit(t.Context(), f, "account/42", 5, "a"))
	require.NoError(t, migrations.Set{Schema: f.schema}.Up(t.Context(), sqlDB(t, f)))
	number, holder := f.mark(t, "account/42")
	require.Equal(t, int64(5), number)
	require.Equal(t, "a", holder)
}

func TestUpWaitsAsLongAsItsContext(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	holder := f.begin(t, "")
	require.NoError(t, f.exec(t.Context(), holder, "SELECT pg_advisory_xact_lock(hashtextextended($1, 9651))", f.schema))
	db, set := sqlDB(t, f), migrations.Set{Schema: f.schema}

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := set.Up(ctx, db)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "migrations: postgres: ")

	require.NoError(t, holder.Rollback(t.Context()))
	require.NoError(t, set.Up(t.Context(), db), "the one who gave up left a lock behind")
}

func TestUpNeedsNoRightToMakeSchemas(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	for _, text := range []string{
		"CREATE ROLE fence.owner", "CREATE SCHEMA fence.made AUTHORIZATION fence.owner",
	} {
		_, err := f.Exec(t.Context(), f.named(text))
		require.NoError(t, err)
	}
	f.atEnd(t, f.named("DROP OWNED BY fence.owner CASCADE; DROP ROLE fence.owner"))
	db := sqlDB(t, f, f.named("SET ROLE fence.owner"))
	require.NoError(t, migrations.Set{Schema: f.schema + "_made"}.Up(t.Context(), db))
}

func TestUpWithoutRights(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	asRole(t, f, "GRANT USAGE ON SCHEMA "+f.schema)
	db := sqlDB(t, f, f.named("SET ROLE fence.role"))
	for set, text := range map[migrations.Set]string{
		{Schema: f.schema + "_none"}:  `migrations: postgres: schema "` + f.schema + `_none" is not there, and this role cannot make it: `,
		{Schema: f.schema + "_empty"}: `migrations: postgres: table "` + f.schema + `_empty".fencepost_migrations: `,
		{Schema: f.schema}:            "migrations: postgres: ",
	} {
		if set.Schema == f.schema+"_empty" {
			require.NoError(t, f.exec(t.Context(), f, "CREATE SCHEMA "+set.Schema+"; GRANT USAGE ON SCHEMA "+set.Schema+f.named(" TO fence.role")))
			f.atEnd(t, "DROP SCHEMA "+set.Schema)
		}
		for _, work := range []func(migrations.Set, context.Context, *sql.DB) error{migrations.Set.Up, migrations.Set.Down} {
			err := work(set, t.Context(), db)
			if err == nil { // Down, where there is nothing
				continue
			}
			require.ErrorContains(t, err, text)
			require.Equal(t, "42501", code(err))
		}
		require.Error(t, set.Up(t.Context(), db))
	}
	require.NoError(t, migrations.Set{Schema: f.schema}.Check(t.Context(), db))
}

func TestUpRefuses(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]migrations.Set{
		"migrations: unknown dialect Dialect(7)":                  {Dialect: 7},
		"migrations: SQLite has no schemas, Schema must be empty": {Dialect: migrations.SQLite, Schema: "x"},
		`migrations: schema "a/b" must not contain a slash`:       {Schema: "a/b"},
	} {
		require.EqualError(t, set.Up(t.Context(), nil), name)
		require.EqualError(t, set.Down(t.Context(), nil), name)
		require.EqualError(t, set.Check(t.Context(), nil), name)
		_, err := set.Status(t.Context(), nil)
		require.EqualError(t, err, name)
		_, err = set.FS()
		require.EqualError(t, err, name)
		_, err = set.SQL()
		require.EqualError(t, err, name)
	}
}
