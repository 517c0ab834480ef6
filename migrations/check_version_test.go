package migrations_test

import (
	"database/sql"
	"fmt"
	"io/fs"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/migrations"
)

// newest is the version of a complete database.
func newest(t *testing.T, set migrations.Set) int {
	t.Helper()
	files, err := set.FS()
	require.NoError(t, err)
	names, err := fs.Glob(files, "*.sql")
	require.NoError(t, err)
	number, _, _ := strings.Cut(names[len(names)-1], "_")
	version, err := strconv.Atoi(number)
	require.NoError(t, err)
	return version
}

// The last file of the folder says its own number.
func TestVersionIsTheNewestFile(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	require.Equal(t, newest(t, migrations.Set{}), get[int](t, f, f, "SELECT fence.version()"))
	require.Equal(t, newest(t, migrations.Set{}), applied(t, migrations.Set{})-1, "no number is left out")
}

func TestCheckOfTheVersion(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	db, ours := application(t, f), newest(t, migrations.Set{})
	behind := func(version int) string {
		return fmt.Sprintf(`schema "%s" is at version %d, and this program needs %d: apply the migrations, `+
			`with fencepost migrate up or whatever applied the others`, f.schema, version, ours)
	}
	become := func(version int) {
		require.NoError(t, f.exec(t.Context(), f, fmt.Sprintf(
			"CREATE OR REPLACE FUNCTION fence.version() RETURNS integer LANGUAGE sql STABLE AS 'SELECT %d'", version)))
	}
	become(ours + 1)
	require.Empty(t, checked(t, f, db), "old programs run beside new ones")
	become(ours - 1)
	require.Equal(t, []string{behind(ours - 1)}, checked(t, f, db))
	require.NoError(t, f.exec(t.Context(), f, "DROP FUNCTION fence.release"))
	require.Equal(t, []string{behind(ours - 1)}, checked(t, f, db), "what is missing is the version's fault")
	require.NoError(t, f.exec(t.Context(), f, "ALTER SEQUENCE fence.numbers CACHE 2"))
	require.Len(t, checked(t, f, db), 2, "what is wrong is not")
	require.NoError(t, f.exec(t.Context(), f, "DROP FUNCTION fence.version"))
	unknown := strings.Replace(behind(0), "at version 0", "older, without a function version()", 1)
	require.Equal(t, unknown, checked(t, f, db)[0], "this role may not read the version table")
	require.NoError(t, f.exec(t.Context(), f, "DELETE FROM fence.fencepost_migrations WHERE version_id > 11"))
	require.Equal(t, behind(11), checked(t, f, sqlDB(t, f))[0], "its owner may")
}

func TestCheckOfTheSchema(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	asRole(t, f, "")
	db := sqlDB(t, f, f.named("SET ROLE fence.role"))
	require.Equal(t, []string{fmt.Sprintf(`role role may not use schema "%s": GRANT USAGE ON SCHEMA "%s" TO role`, f.schema, f.schema)},
		checked(t, f, db))
	none := fence{f.Pool, f.schema + "_none"}
	require.Equal(t, []string{fmt.Sprintf(`schema "%s" is not there: apply the migrations, with fencepost migrate up`, none.schema)},
		checked(t, none, db))
}

func TestCheckOfSchemasOfAnyName(t *testing.T) {
	t.Parallel()
	host := newFence(t)
	for _, name := range []string{`we"ird; check`, `o'check`, `back\slash check`, `Größe check`, `$fencepost$ check`} {
		set := migrations.Set{Schema: name}
		quoted := pgx.Identifier{name}.Sanitize()
		host.atEnd(t, "DROP SCHEMA IF EXISTS "+quoted+" CASCADE")
		db := sqlDB(t, host)
		require.ErrorContains(t, set.Check(t.Context(), db), "schema "+quoted+" is not there")
		require.NoError(t, set.Up(t.Context(), db))
		require.NoError(t, set.Check(t.Context(), db))
		_, err := db.ExecContext(t.Context(), "ALTER SEQUENCE "+quoted+".numbers CYCLE")
		require.NoError(t, err)
		require.ErrorContains(t, set.Check(t.Context(), db), "ALTER SEQUENCE "+quoted+".numbers NO CYCLE")
		require.NoError(t, set.Down(t.Context(), db))
	}
}

// A standby, and whoever wants to be sure.
func TestCheckOnlyReads(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	require.Empty(t, checked(t, f, sqlDB(t, f, "SET default_transaction_read_only = on")))
}

func TestCheckThatCannotAsk(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	db := sqlDB(t, f)
	require.NoError(t, db.Close())
	err := migrations.Set{Schema: f.schema}.Check(t.Context(), db)
	require.EqualError(t, err, "migrations: postgres: sql: database is closed")
	var found *migrations.CheckError
	require.NotErrorAs(t, err, &found)
}

// In the modes that a pooler in transaction mode supports.
func TestCheckThroughAPooler(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	for _, mode := range []string{"exec", "cache_describe", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			pooler, err := url.Parse(testenv.PgBouncer(t))
			require.NoError(t, err)
			pooler.RawQuery = url.Values{"sslmode": {"disable"}, "default_query_exec_mode": {mode}}.Encode()
			db, err := sql.Open("pgx", pooler.String())
			require.NoError(t, err)
			opened(t, db)
			var waits []func() error
			for range 8 {
				waits = append(waits, later(t, func() error { return migrations.Set{Schema: f.schema}.Check(t.Context(), db) }))
			}
			for _, wait := range waits {
				require.NoError(t, wait())
			}
		})
	}
}
