package migrations_test

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
)

// checked returns the findings of Check, with "fence." in place of the schema and "role"
// in place of the role.
func checked(t *testing.T, f fence, db *sql.DB) []string {
	t.Helper()
	err := migrations.Set{Schema: f.schema}.Check(t.Context(), db)
	if err == nil {
		return nil
	}
	var found *migrations.CheckError
	require.ErrorAs(t, err, &found)
	require.NotEmpty(t, found.Findings)
	var findings []string
	for _, finding := range found.Findings {
		require.Contains(t, err.Error(), finding)
		finding = strings.ReplaceAll(finding, f.named("fence.role"), "role")
		findings = append(findings, strings.ReplaceAll(finding, f.schema+".", "fence."))
	}
	return findings
}

// application connects to the fence's server as a role that has only USAGE.
func application(t *testing.T, f fence) *sql.DB {
	t.Helper()
	asRole(t, f, "GRANT USAGE ON SCHEMA "+f.schema)
	return sqlDB(t, f, f.named("SET ROLE fence.role"))
}

func TestCheckFinds(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	db := application(t, f)
	for change, finding := range map[string]string{
		"ALTER SEQUENCE fence.numbers CACHE 20":                         "sequence fence.numbers has CACHE 20, so each session draws from a block of its own, and numbers fall: ALTER SEQUENCE fence.numbers CACHE 1",
		"ALTER SEQUENCE fence.numbers CYCLE":                            "sequence fence.numbers has CYCLE, so its numbers start again: ALTER SEQUENCE fence.numbers NO CYCLE",
		"ALTER SEQUENCE fence.numbers INCREMENT 2":                      "sequence fence.numbers has INCREMENT 2: ALTER SEQUENCE fence.numbers INCREMENT 1",
		"ALTER SEQUENCE fence.numbers MAXVALUE 99":                      "sequence fence.numbers has MAXVALUE 99, and numbers have fifteen digits: ALTER SEQUENCE fence.numbers MAXVALUE 999999999999999",
		"ALTER SEQUENCE fence.numbers SET UNLOGGED":                     "sequence fence.numbers is UNLOGGED, so a crash empties it: ALTER SEQUENCE fence.numbers SET LOGGED",
		"ALTER TABLE fence.marks SET UNLOGGED":                          "table fence.marks is UNLOGGED, so a crash empties it: ALTER TABLE fence.marks SET LOGGED",
		"ALTER TABLE fence.floor SET UNLOGGED":                          "table fence.floor is UNLOGGED, so a crash empties it: ALTER TABLE fence.floor SET LOGGED",
		"ALTER TABLE fence.leases SET UNLOGGED":                         "table fence.leases is UNLOGGED, so a crash empties it: ALTER TABLE fence.leases SET LOGGED",
		"REVOKE EXECUTE ON FUNCTION fence.version() FROM PUBLIC":        "role role may not execute function fence.version(): GRANT EXECUTE ON FUNCTION fence.version() TO role",
		"REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA %s FROM PUBLIC":      "role role may not execute function fence.admit(text, bigint, text, integer): GRANT EXECUTE ON FUNCTION fence.admit(text, bigint, text, integer) TO role",
		"GRANT EXECUTE ON FUNCTION fence.reset(text, bigint) TO PUBLIC": "PUBLIC may execute function fence.reset(text, bigint), which is not for writers: REVOKE EXECUTE ON FUNCTION fence.reset(text, bigint) FROM PUBLIC",
		"GRANT UPDATE ON fence.marks TO PUBLIC":                         "role role was granted the right to change table fence.marks without the functions: REVOKE ALL ON fence.marks FROM role, PUBLIC",
		"GRANT UPDATE ON fence.numbers TO PUBLIC":                       "role role was granted the right to change sequence fence.numbers without the functions: REVOKE ALL ON fence.numbers FROM role, PUBLIC",
	} {
		t.Run(change, func(t *testing.T) {
			f, db := f, db
			if strings.Contains(change, "ALL FUNCTIONS") { // one remedy is not enough
				f = newFence(t)
				db = application(t, f)
			}
			require.Empty(t, checked(t, f, db))
			require.NoError(t, f.exec(t.Context(), f, strings.ReplaceAll(change, "%s", f.schema)))
			findings := checked(t, f, db)
			require.Contains(t, findings, finding)

			_, cure, _ := strings.Cut(finding, ": ")
			cure = strings.NewReplacer("TO role", f.named("TO fence.role"), "FROM role", f.named("FROM fence.role")).Replace(cure)
			require.NoError(t, f.exec(t.Context(), f, cure), "its cure")
			require.NotContains(t, checked(t, f, db), finding)
		})
	}
}

// In development the program often owns the tables.
func TestCheckLetsOwnersPass(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	require.Empty(t, checked(t, f, sqlDB(t, f)), "a superuser")
	asRole(t, f, "GRANT USAGE, CREATE ON SCHEMA "+f.schema)
	f.atEnd(t, f.named("REASSIGN OWNED BY fence.role TO CURRENT_USER"))
	db := sqlDB(t, f, f.named("SET ROLE fence.role"))
	for _, table := range []string{"marks", "floor", "leases"} {
		require.NoError(t, f.exec(t.Context(), f, f.named("ALTER TABLE "+f.sql("fence.")+table+" OWNER TO fence.role")))
	}
	require.Empty(t, checked(t, f, db))
}

func TestCheckMissesNoTable(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	db := application(t, f)
	for _, table := range strings.Fields(one[string](t, db, `SELECT string_agg(relname, ' ') FROM pg_class
		WHERE relnamespace = $1::text::regnamespace AND relkind IN ('r', 'S') AND relname NOT LIKE 'fencepost_migrations%'`, f.schema)) {
		require.NoError(t, f.exec(t.Context(), f, "ALTER TABLE fence."+table+" RENAME TO gone"))
		findings := checked(t, f, db)
		require.Len(t, findings, 1, table)
		remedy := "restore it from a backup"
		if table == "incarnation" {
			remedy = "create it again"
		}
		require.Contains(t, findings[0], " fence."+table+" is not there: "+remedy)
		require.NoError(t, f.exec(t.Context(), f, "ALTER TABLE fence.gone RENAME TO "+table))
	}
	require.Empty(t, checked(t, f, db))
}

func TestCheckFindsAnIncarnationThatOutlivesACrash(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	db := application(t, f)
	require.NoError(t, f.exec(t.Context(), f, "ALTER TABLE fence.incarnation SET LOGGED"))
	require.Equal(t, []string{"table fence.incarnation is not UNLOGGED, so no lost COMMIT is settled: ALTER TABLE fence.incarnation SET UNLOGGED"}, checked(t, f, db))
	require.NoError(t, f.exec(t.Context(), f, "ALTER TABLE fence.incarnation SET UNLOGGED"))
	require.Empty(t, checked(t, f, db))
}

// After a crash without marks, stale tokens would be admitted. Check reports that before.
func TestCheckFindsMarksThatACrashForgets(t *testing.T) {
	t.Parallel()
	spare := testenv.SparePostgres(t)
	ctx, connect := t.Context(), func() *sql.DB {
		db, err := sql.Open("pgx", spare.URL())
		require.NoError(t, err)
		return opened(t, db)
	}
	db := connect()
	require.NoError(t, migrations.Set{}.Up(ctx, db))
	crash := func(resource string) error {
		must(t, db, "SELECT fencepost.admit($1, 6, 'b')", resource)
		spare.Crash()
		db = connect()
		_, err := db.ExecContext(ctx, "SELECT fencepost.admit($1, 5, 'a')", resource)
		return err
	}
	require.NoError(t, migrations.Set{}.Check(ctx, db))
	require.Equal(t, "ZF001", code(crash("account/42")))

	must(t, db, "ALTER TABLE fencepost.marks SET UNLOGGED")
	require.ErrorContains(t, migrations.Set{}.Check(ctx, db), "table fencepost.marks is UNLOGGED")
	require.NoError(t, crash("account/43"), "the twin: the stale is admitted")
}

// called are the functions that the library calls, and those that they call with the
// caller's rights.
func called(t *testing.T) []string {
	t.Helper()
	names := []string{"incarnation", "lock_key", "mark_number", "refusing_mark", "version"}
	for _, pattern := range []string{"../internal/pgadmit/*.sql", "../internal/pgwrite/*.sql", "../sqlguard/stdsql/*.sql", "../sqlguard/stdsql/*.go", "../token/pgtoken/*.sql"} {
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
	require.Subset(t, names, []string{"admit", "try_acquire"})
	for _, name := range names {
		require.NoError(t, f.exec(t.Context(), f, "ALTER FUNCTION fence."+name+" RENAME TO gone"))
		findings := checked(t, f, db)
		require.Len(t, findings, 1, name)
		if name != "version" { // without it the schema looks older
			require.Contains(t, findings[0], "function fence."+name+"(")
			require.Contains(t, findings[0], ") is not there: create it again, from fencepost migrate print")
		}
		require.NoError(t, f.exec(t.Context(), f, "ALTER FUNCTION fence.gone RENAME TO "+name))
	}
	require.Empty(t, checked(t, f, db))
}

// Functions that run as the owner and are not for writers must not be executable by them.
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
		require.Contains(t, strings.Join(findings, "\n"), "PUBLIC may execute function fence."+name+"(")
	}
}

func TestCheckOfTables(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"on SQLite", "on MariaDB"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, db := dialects[name].set, dialects[name].open(t)
			ctx, exec := t.Context(), func(text string) {
				t.Helper()
				must(t, db, text)
			}
			require.ErrorContains(t, set.Check(ctx, db), "the database is at version 0, and this program needs ")
			require.NoError(t, set.Up(ctx, db))
			require.NoError(t, set.Check(ctx, db))
			exec("INSERT INTO fencepost_migrations (version_id, is_applied) VALUES (99, 1)")
			require.NoError(t, set.Check(ctx, db), "old programs run beside new ones")
			for _, table := range []string{"fencepost_marks", "fencepost_floor", "fencepost_units"} {
				exec("ALTER TABLE " + table + " RENAME TO gone")
				require.ErrorContains(t, set.Check(ctx, db), "migrations: table "+table+" is not there: restore it from a backup")
				exec("ALTER TABLE gone RENAME TO " + table)
			}
			require.NoError(t, set.Check(ctx, db))
			exec("DELETE FROM fencepost_migrations WHERE version_id = 1")
			require.ErrorContains(t, set.Check(ctx, db), "the database is at version 0, and this program needs ")
		})
	}
}

// newest returns the version of a complete database.
func newest(t *testing.T, set migrations.Set) int {
	t.Helper()
	return applied(t, set) - 1
}

// The function version() returns the number of the folder's last file.
func TestVersionIsTheNewestFile(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	require.Equal(t, newest(t, migrations.Set{}), get[int](t, f, f, "SELECT fence.version()"))
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
	require.NoError(t, f.exec(t.Context(), f, "DELETE FROM fence.fencepost_migrations WHERE version_id > 5"))
	require.Equal(t, behind(5), checked(t, f, sqlDB(t, f))[0], "its owner may")
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

// Check only reads, so it works on a standby.
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

// In the query modes that a pooler in transaction mode supports.
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
				waits = append(waits, pgtest.Later(t, func() error { return migrations.Set{Schema: f.schema}.Check(t.Context(), db) }))
			}
			for _, wait := range waits {
				require.NoError(t, wait())
			}
		})
	}
}

// hazard P8
// A pooler in transaction mode gives the session that has the lock to the next client.
func TestUpThroughAPooler(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	set := migrations.Set{Schema: f.schema + "_pooled"}
	f.atEnd(t, "DROP SCHEMA IF EXISTS "+set.Schema+" CASCADE")
	open := func(url string) *sql.DB {
		db, err := sql.Open("pgx", url)
		require.NoError(t, err)
		return opened(t, db)
	}
	pooler := testenv.PgBouncer(t)
	for range 2 {
		require.True(t, one[bool](t, open(pooler+"&default_query_exec_mode=exec"), "SELECT pg_try_advisory_lock(1)"), "it excludes nothing")
	}
	for _, mode := range []string{"cache_statement", "exec"} {
		var waits []func() error
		for range 4 { // as many as it has sessions
			db := open(pooler + "&default_query_exec_mode=" + mode)
			waits = append(waits, pgtest.Later(t, func() error { return set.Up(t.Context(), db) }))
		}
		for _, wait := range append(waits, func() error { return set.Down(t.Context(), open(pooler)) }) {
			require.ErrorContains(t, wait(), "migrations: postgres: there is a pooler in transaction mode", mode)
		}
	}
	require.Zero(t, get[int](t, f, f, "SELECT count(*) FROM pg_namespace WHERE nspname = $1", set.Schema))

	kept := open(testenv.OwnPgBouncer(t, "", "pool_mode = session"))
	require.NoError(t, set.Up(t.Context(), kept))
	require.NoError(t, set.Check(t.Context(), kept))
	require.NoError(t, set.Down(t.Context(), kept))
}
