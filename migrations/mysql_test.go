package migrations_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/engine"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
)

// newMySQL creates an empty MariaDB database.
func newMySQL(t *testing.T) (db *sql.DB, dsn string) {
	t.Helper()
	dsn = testenv.MariaDB(t)
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	return opened(t, db), dsn
}

// CREATE TABLE commits, so an interruption can leave the state after any statement.
func TestUpOfMySQLGoesOnFromWhereItWasInterrupted(t *testing.T) {
	t.Parallel()
	script, err := onMySQL.SQL()
	require.NoError(t, err)
	texts := statements(dialects["on MariaDB"], script)
	require.Len(t, texts, 4)
	const versions = "CREATE TABLE fencepost_migrations (id bigint(20) unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, " +
		"version_id bigint NOT NULL, is_applied boolean NOT NULL, tstamp timestamp NULL default now())"
	for n := range len(texts) + 1 {
		db, _ := newMySQL(t)
		for _, statement := range append([]string{versions}, texts[:n]...) {
			must(t, db, statement)
		}
		require.NoError(t, onMySQL.Up(t.Context(), db), "interrupted behind %d statements", n)
		require.NoError(t, onMySQL.Check(t.Context(), db))
		require.Equal(t, applied(t, onMySQL), one[int](t, db, "SELECT count(*) FROM fencepost_migrations"))
		require.Equal(t, 1, one[int](t, db, "SELECT count(*) FROM fencepost_floor"))
	}
}

// statements returns the statements of a script, if a driver does not take it as a whole.
func statements(d dialect, script string) (statements []string) {
	if d.set.Dialect != migrations.MySQL {
		return []string{script}
	}
	var plain strings.Builder
	for line := range strings.Lines(script) {
		if !strings.HasPrefix(line, "--") {
			plain.WriteString(line)
		}
	}
	for text := range strings.SplitAfterSeq(plain.String(), ";") {
		if text = strings.TrimSpace(text); text != "" {
			statements = append(statements, text)
		}
	}
	return statements
}

func TestUpOfMySQLWaitsAsLongAsItMay(t *testing.T) {
	t.Parallel()
	db, _ := newMySQL(t)
	holder, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer holder.Close()
	must(t, holder, "DO GET_LOCK(CONCAT('fencepost/', LEFT(SHA2(DATABASE(), 256), 40)), 0)")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err = onMySQL.Up(ctx, db)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	var id int
	require.NoError(t, holder.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id))
	by := fmt.Sprintf("migrations: mysql: another up or down has the lock: connection %d, account ", id)
	require.ErrorContains(t, err, by)
	at := onMySQL
	at.WaitTimeout = time.Nanosecond
	err = at.Up(t.Context(), db)
	require.ErrorContains(t, err, by)
	require.ErrorContains(t, err, "not granted within 1ns")

	wait := pgtest.Later(t, func() error { return onMySQL.Up(t.Context(), db) })
	must(t, holder, "DO RELEASE_ALL_LOCKS()")
	require.NoError(t, wait())
}

func TestUpOfMySQLNeedsADatabase(t *testing.T) {
	t.Parallel()
	_, dsn := newMySQL(t)
	db, err := sql.Open("mysql", dsn[:strings.LastIndex(dsn, "/")+1])
	require.NoError(t, err)
	require.ErrorContains(t, onMySQL.Up(t.Context(), opened(t, db)), "does the DSN name a database?")
}

func TestMarksOfTables(t *testing.T) {
	t.Parallel()
	mariadb := func(mode string) func(t *testing.T) *sql.DB {
		return func(t *testing.T) *sql.DB {
			_, dsn := newMySQL(t)
			db, err := sql.Open("mysql", dsn+"?sql_mode=%27"+mode+"%27")
			require.NoError(t, err)
			return opened(t, db)
		}
	}
	for name, c := range map[string]struct {
		set  migrations.Set
		open func(t *testing.T) *sql.DB
	}{
		"on SQLite":              {onSQLite, dialects["on SQLite"].open},
		"on MariaDB, strict":     {onMySQL, mariadb("STRICT_ALL_TABLES")},
		"on MariaDB, not strict": {onMySQL, mariadb("")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := c.open(t)
			require.NoError(t, c.set.Up(t.Context(), db))
			insert := func(resource, number, holder any) error {
				_, err := db.ExecContext(t.Context(), "INSERT INTO fencepost_marks VALUES (?, ?, ?)", resource, number, holder)
				return err
			}
			for i, resource := range []string{"account/42", "account/42 ", "ACCOUNT/42", "größe", "grosse"} {
				require.NoError(t, insert(resource, i+1, "a"), "names compare byte by byte")
			}
			for _, bad := range [][3]any{
				{"account/42", 9, "a"}, {"", 1, "a"}, {"x", 0, "a"}, {"x", 1, ""}, {nil, 1, "a"}, {"x", nil, "a"}, {"x", 1, nil},
				{"x", int64(1_000_000_000_000_000), "a"}, {"x", "nine", "a"},
				{strings.Repeat("ß", 101), 1, "a"}, {"x", 1, strings.Repeat("ß", 101)}, {strings.Repeat("x", 300), 1, "a"},
			} {
				require.Error(t, insert(bad[0], bad[1], bad[2]), "%v", bad)
			}
			// hazard G14
			require.NoError(t, insert("x", "9", "a"))
			require.Equal(t, 1, one[int](t, db, "SELECT number < 10 FROM fencepost_marks WHERE resource = 'x'"))
			require.Equal(t, 0, one[int](t, db, "SELECT '9' < '10'"), "the twin: as text")
		})
	}
	t.Run("the twin, as text on MariaDB, takes other names for the same", func(t *testing.T) {
		t.Parallel()
		db, _ := newMySQL(t)
		must(t, db, "CREATE TABLE twin (resource VARCHAR(200) PRIMARY KEY)")
		must(t, db, "INSERT INTO twin VALUES ('account/42'), ('groesse')")
		for _, other := range []string{"ACCOUNT/42", "account/42 ", "Áccount/42"} {
			_, err := db.ExecContext(t.Context(), "INSERT INTO twin VALUES (?)", other)
			require.ErrorContains(t, err, "Duplicate entry")
		}
	})
}

func TestCheckOfMySQLFindsTablesWithoutTransactions(t *testing.T) {
	t.Parallel()
	db, _ := newMySQL(t)
	require.NoError(t, onMySQL.Up(t.Context(), db))
	for _, statement := range []string{"ALTER TABLE fencepost_marks ENGINE = MyISAM", "ALTER TABLE fencepost_units ENGINE = Aria", "DROP TABLE fencepost_floor"} {
		must(t, db, statement)
	}
	err := onMySQL.Check(t.Context(), db)
	require.ErrorContains(t, err, "ALTER TABLE fencepost_marks ENGINE = InnoDB")
	require.ErrorContains(t, err, "ALTER TABLE fencepost_units ENGINE = InnoDB")
	require.ErrorContains(t, err, "table fencepost_floor is not there")
}

// hazard G28
func TestAnEngineThatIsNotKnownToFenceGetsNoSchema(t *testing.T) {
	t.Parallel()
	server := testenv.OwnPostgres(t)
	db, err := sql.Open("pgx", server.URL())
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, statement := range []string{
		"SET allow_system_table_mods = on", "ALTER FUNCTION pg_catalog.version() RENAME TO was",
		"CREATE FUNCTION pg_catalog.version() RETURNS text LANGUAGE sql AS 'SELECT ''CockroachDB CCL v25.4.14 (x86_64-pc-linux-gnu)'''",
	} {
		must(t, db, statement)
	}
	require.ErrorIs(t, migrations.Set{}.Up(t.Context(), db), engine.ErrUnfenced)
	require.False(t, one[bool](t, db, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'fencepost')"), "nothing is made")
	var wrong *migrations.CheckError
	require.ErrorAs(t, migrations.Set{}.Check(t.Context(), db), &wrong)
	require.Len(t, wrong.Findings, 1)
	require.Contains(t, wrong.Findings[0], "CockroachDB CCL v25.4.14")

	vouched := migrations.Set{DangerouslyTrustEngine: true}
	require.NoError(t, vouched.Up(t.Context(), db))
	require.NoError(t, vouched.Check(t.Context(), db))
}

func TestADialectThatIsNotTheDatabases(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d dialect, db *sql.DB) {
		seems := map[migrations.Dialect]string{
			migrations.Postgres: "PostgreSQL", migrations.MySQL: "MySQL or MariaDB", migrations.SQLite: "SQLite",
		}
		before := one[int](t, db, d.things)
		for dialect := range seems {
			if dialect == d.set.Dialect {
				continue
			}
			set := migrations.Set{Dialect: dialect}
			for name, work := range map[string]func(ctx context.Context, db *sql.DB) error{
				"Up": set.Up, "Check": set.Check, "Down": set.Down,
				"Status": func(ctx context.Context, db *sql.DB) error { _, err := set.Status(ctx, db); return err },
			} {
				require.ErrorContains(t, work(t.Context(), db), "migrations: Set.Dialect is "+dialect.String()+
					", and the database seems to be "+seems[d.set.Dialect]+": ", "%s of %s", name, dialect)
			}
		}
		require.Equal(t, before, one[int](t, db, d.things))
		require.NoError(t, d.set.Up(t.Context(), db), "the database can be used")
	})
}
