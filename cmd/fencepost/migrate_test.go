package main

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
)

// files are those of package migrations for PostgreSQL, in their order.
func files(t *testing.T) []string { return filesOf(t, migrations.Set{}) }

func filesOf(t *testing.T, of migrations.Set) []string {
	t.Helper()
	set, err := of.FS()
	require.NoError(t, err)
	names, err := fs.Glob(set, "*.sql")
	require.NoError(t, err)
	return names
}

func reversed(names []string) []string {
	names = slices.Clone(names)
	slices.Reverse(names)
	return names
}

func each(names []string, before, after string) string {
	var lines strings.Builder
	for _, name := range names {
		lines.WriteString(before + name + after + "\n")
	}
	return lines.String()
}

// migrated is an empty database for fencepost migrate, and its texts.
type migrated struct {
	flags  []string
	name   string // the name that down prompts for
	place  string // the schema or database in messages
	absent string // what check finds before up
	names  []string
	open   func(t *testing.T) *sql.DB
	fault  [3]string // a statement, what check finds after it, and a statement that repairs it
}

func newMigrated(t *testing.T, dialect migrations.Dialect) migrated {
	t.Helper()
	const apply = ": apply the migrations, with fencepost migrate up"
	m := migrated{names: filesOf(t, migrations.Set{Dialect: dialect})}
	driver, source := "pgx", ""
	if dialect == migrations.MySQL {
		driver, source = "mysql", testenv.MariaDB(t)
		m.flags = []string{"--mysql", source}
		m.name = source[strings.LastIndex(source, "/")+1:]
		m.place = "database `" + m.name + "`"
		m.absent = "the database is at version 0, and this program needs 2" + apply + " or whatever applied the others"
		m.fault = [3]string{"ALTER TABLE fencepost_floor ENGINE = MyISAM",
			"table fencepost_floor has no transactions, so stale tokens are admitted: ALTER TABLE fencepost_floor ENGINE = InnoDB",
			"ALTER TABLE fencepost_floor ENGINE = InnoDB"}
	} else {
		source = testenv.Database(t)
		m.flags = []string{"--postgres", source}
		m.name, m.place = "fencepost", `schema "fencepost"`
		m.absent = `schema "fencepost" is not there` + apply
		m.fault = [3]string{"ALTER SEQUENCE fencepost.numbers CACHE 20",
			"sequence fencepost.numbers has CACHE 20, so each session draws from a block of its own, and numbers fall: ALTER SEQUENCE fencepost.numbers CACHE 1",
			"ALTER SEQUENCE fencepost.numbers CACHE 1"}
	}
	m.open = func(t *testing.T) *sql.DB {
		db, err := sql.Open(driver, source)
		require.NoError(t, err)
		t.Cleanup(func() { db.Close() })
		return db
	}
	return m
}

// onEachDialect runs a test on an empty database of each kind.
func onEachDialect(t *testing.T, test func(t *testing.T, m migrated)) {
	t.Parallel()
	for _, dialect := range []migrations.Dialect{migrations.Postgres, migrations.MySQL} {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			test(t, newMigrated(t, dialect))
		})
	}
}

func TestMigrate(t *testing.T) { onEachDialect(t, testMigrate) }

func testMigrate(t *testing.T, m migrated) {
	run := func(status int, out string, args ...string) {
		t.Helper()
		done := execute(t, append(append([]string{"migrate"}, args...), m.flags...)...)
		require.Equal(t, status, done.status, done.err)
		require.Equal(t, out, done.out)
	}
	missing, version := each(m.names, "missing               ", ""), len(m.names)
	absent := "wrong: " + m.absent + "\n"
	run(1, missing+absent, "status")
	run(1, absent, "check")
	run(0, "nothing to remove: no migration was applied in "+m.place+"\n", "down", "--confirm", m.name)
	run(0, each(m.names, "applied  ", ""), "up")
	run(0, fmt.Sprintf("nothing to do, at version %d\n", version), "up")
	run(0, "", "up", "--json")
	run(0, "", "check")

	done := execute(t, append([]string{"migrate", "status"}, m.flags...)...)
	require.Zero(t, done.status, done.err)
	for i, line := range strings.Split(strings.TrimSpace(done.out), "\n") {
		at, err := time.Parse(time.RFC3339, line[:20])
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), at, time.Hour)
		require.Equal(t, "  "+m.names[i], line[20:])
	}

	db := m.open(t)
	_, err := db.ExecContext(t.Context(), m.fault[0])
	require.NoError(t, err)
	run(1, "wrong: "+m.fault[1]+"\n", "check")
	run(1, `{"finding":"`+m.fault[1]+`"}`+"\n", "check", "--json")
	_, err = db.ExecContext(t.Context(), m.fault[2])
	require.NoError(t, err)
	run(0, "", "check")

	run(0, each(reversed(m.names), "removed  ", ""), "down", "--confirm", m.name)
	run(1, missing+fmt.Sprintf("wrong: %s is at version 0, and this program needs %d: apply the migrations, with fencepost migrate up or whatever applied the others\n",
		map[bool]string{true: m.place, false: "the database"}[m.name == "fencepost"], version), "status")
}

// migration is the documented form of a line of JSON.
type migration struct {
	Version   int64      `json:"version"`
	File      string     `json:"file"`
	AppliedAt *time.Time `json:"applied_at"`
}

func TestMigrateAsJSON(t *testing.T) { onEachDialect(t, testMigrateAsJSON) }

func testMigrateAsJSON(t *testing.T, m migrated) {
	names, name := m.names, m.name
	if m.flags[0] == "--postgres" {
		name = "of mine"
		m.flags = append(m.flags, "--schema", name)
	}
	lines := func(args ...string) (lines []migration) {
		t.Helper()
		done := execute(t, append(append([]string{"migrate"}, append(args, "--json")...), m.flags...)...)
		require.Zero(t, done.status, done.err)
		for i, text := range strings.Split(strings.TrimSpace(done.out), "\n") {
			var line migration
			decoder := json.NewDecoder(strings.NewReader(text))
			decoder.DisallowUnknownFields()
			require.NoError(t, decoder.Decode(&line), text)
			at := i
			if args[0] == "down" { // the newest goes first
				at = len(names) - 1 - i
			}
			require.EqualValues(t, at+1, line.Version)
			require.Equal(t, names[at], line.File)
			lines = append(lines, line)
		}
		require.Len(t, lines, len(names))
		return lines
	}
	for _, command := range []string{"up", "status"} {
		for _, line := range lines(command) {
			require.WithinDuration(t, time.Now(), *line.AppliedAt, time.Hour)
		}
	}
	for _, line := range lines("down", "--confirm", name) {
		require.Nil(t, line.AppliedAt)
	}
}

func TestMigrateWaitsForAnother(t *testing.T) { onEachDialect(t, testMigrateWaits) }

func testMigrateWaits(t *testing.T, m migrated) {
	lock, self, unlock := "SELECT pg_advisory_lock(hashtextextended('fencepost', 9651))",
		"SELECT 'process ' || pg_backend_pid() || ', application_name \"'", "SELECT pg_advisory_unlock_all()"
	if m.flags[0] == "--mysql" {
		lock, self, unlock = "SELECT GET_LOCK(CONCAT('fencepost/', LEFT(SHA2(DATABASE(), 256), 40)), 0)",
			"SELECT CONCAT('connection ', CONNECTION_ID(), ', account ')", "SELECT RELEASE_ALL_LOCKS()"
	}
	holder, err := m.open(t).Conn(t.Context())
	require.NoError(t, err)
	defer holder.Close()
	var locked, by string
	require.NoError(t, holder.QueryRowContext(t.Context(), lock).Scan(&locked))
	require.NoError(t, holder.QueryRowContext(t.Context(), self).Scan(&by))
	by = "another up or down has the lock: " + by
	up := append([]string{"migrate", "up"}, m.flags...)
	requireFailed(t, execute(t, append(up, "--wait=0s")...), 2, "wait: 0s: must be at least 1ms")
	done := execute(t, append(up, "--wait=1ms")...)
	require.Equal(t, 2, done.status)
	require.Regexp(t, "^fencepost: waiting for 1ms at most: "+by+".*\nfencepost: migrations: \\w+: "+by+".*\n$", done.err)

	cmd, _ := command(t, up...)
	errs, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(errs).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "fencepost: waiting for 1m0s at most: "+by)
	require.NoError(t, holder.QueryRowContext(t.Context(), unlock).Scan(&locked))
	require.NoError(t, cmd.Wait())
}

// hazard P8
func TestMigrateThroughAPooler(t *testing.T) {
	t.Parallel()
	flags := []string{"--schema", "fencepost_test_pooled", "--postgres", testenv.PgBouncer(t)}
	for range 2 { // also on a session that has prepared the statements of the first
		for _, args := range [][]string{{"up"}, {"down", "--confirm", "fencepost_test_pooled"}} {
			done := execute(t, append(append([]string{"migrate"}, args...), flags...)...)
			requireFailed(t, done, 2, "migrations: postgres: there is a pooler in transaction mode")
		}
		done := execute(t, append([]string{"migrate", "check"}, flags...)...)
		require.Equal(t, 1, done.status, done.err)
		require.Contains(t, done.out, `schema "fencepost_test_pooled" is not there`)
	}
}

func TestMigratePrintsNoPassword(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"u:sekret@h/db", "u:sek/ret@tcp(127.0.0.1:1)/db", "u:sekret@tcp(127.0.0.1:1)/db"} {
		requireFailed(t, execute(t, "migrate", "up", "--mysql", dsn), 2, "fencepost: mysql")
	}
	const dsn = "u:sekret@tcp(127.0.0.1:1)/db"
	for _, args := range [][]string{{"marks", "list", dsn}, {"marks", "list", "--limit", dsn}, {"doctor", "--json=" + dsn}, {dsn}} {
		requireFailed(t, execute(t, args...), 2, "u:…@tcp(")
	}
	for _, given := range []string{
		"postgres://u:sekret@h:port/db", "postgres://u:sek%ret@h/db", "postgres://u:sek/ret@h/db", "postgres://u:sek ret@h/db", "u:sekret@h",
		"host=x password=sekret port=bad", "host=x password='sek ret port=1", "postgres://u:sekret@127.0.0.1:1/db?connect_timeout=1",
	} {
		done := execute(t, "migrate", "down", "--confirm", "fencepost", "--postgres", given)
		require.Equal(t, 2, done.status, given)
		require.Empty(t, done.out)
		require.Contains(t, done.err, "fencepost: postgres")
		require.NotContains(t, done.err, "ret", given)
		require.NotContains(t, done.err, "sek", given)
	}
}

func TestMigrateTakesTheURLFromTheEnvironment(t *testing.T) {
	t.Parallel()
	cmd, _ := command(t, "migrate", "check")
	cmd.Env = append(cmd.Env, "FENCEPOST_POSTGRES_URL="+testenv.Database(t))
	out, err := cmd.Output()
	require.Error(t, err)
	require.Equal(t, 1, cmd.ProcessState.ExitCode())
	require.Contains(t, string(out), "is not there")

	cmd, _ = command(t, "migrate", "check")
	cmd.Env = append(cmd.Env, "FENCEPOST_POSTGRES_URL=")
	text, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(text), "give --postgres=URL or --mysql=DSN, or set ")
	require.Empty(t, os.Getenv("FENCEPOST_POSTGRES_URL"))
}

// A down that stops half-way, as an interrupted one does, leaves the older migrations.
func TestMigrateStatusHasTheVersionOfTheDatabase(t *testing.T) {
	t.Parallel()
	server, names := testenv.Database(t), files(t)
	require.Zero(t, execute(t, "migrate", "up", "--postgres", server).status)
	db, err := sql.Open("pgx", server)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), "CREATE VIEW mine AS SELECT fencepost.number_at(now())")
	require.NoError(t, err)
	done := execute(t, "migrate", "down", "--confirm", "fencepost", "--postgres", server)
	require.Equal(t, 2, done.status)
	require.Equal(t, each(reversed(names[2:]), "removed  ", ""), done.out)
	done = execute(t, "migrate", "status", "--postgres", server)
	require.Equal(t, 1, done.status)
	require.Contains(t, done.out, "missing               00003_protect.sql\n")
	require.Contains(t, done.out, `wrong: schema "fencepost" is at version 2, and this program needs 10: `)
}

func TestMigrateDownLeavesProtectedTables(t *testing.T) {
	t.Parallel()
	server := testenv.Database(t)
	require.Zero(t, execute(t, "migrate", "up", "--postgres", server).status)
	db, err := sql.Open("pgx", server)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), "CREATE TABLE accounts (id bigint); SELECT fencepost.protect('accounts', 'id::text')")
	require.NoError(t, err)
	done := execute(t, "migrate", "down", "--confirm", "fencepost", "--postgres", server)
	require.Equal(t, 2, done.status)
	require.Empty(t, done.out)
	require.Contains(t, done.err, "tables are still protected: accounts: nothing was removed; ")
	require.Zero(t, execute(t, "migrate", "status", "--postgres", server).status)
	_, cure, _ := strings.Cut(strings.TrimSpace(done.err), "; stop the writers, then ")
	_, err = db.ExecContext(t.Context(), cure)
	require.NoError(t, err)
	require.Zero(t, execute(t, "migrate", "down", "--confirm", "fencepost", "--postgres", server).status)
}
