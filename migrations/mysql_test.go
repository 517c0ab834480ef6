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
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/engine"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
)

var onMySQL = migrations.Set{Dialect: migrations.MySQL}

// newMySQL creates an empty MariaDB database.
func newMySQL(t *testing.T) (db *sql.DB, dsn string) {
	t.Helper()
	dsn = testenv.MariaDB(t)
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	return opened(t, db), dsn
}

func TestUpOfMySQL(t *testing.T) {
	t.Parallel()
	db, _ := newMySQL(t)
	db.SetMaxOpenConns(1)
	for range 3 {
		require.NoError(t, onMySQL.Up(t.Context(), db))
	}
	require.Equal(t, applied(t, onMySQL), one[int](t, db, "SELECT count(*) FROM fencepost_migrations"))
	require.Zero(t, one[int](t, db, "SELECT count(*) FROM fencepost_marks"))
	require.Equal(t, 1, one[int](t, db, "SELECT count(*) FROM fencepost_floor WHERE number = 0"))
	require.Equal(t, 1, one[int](t, db, "SELECT IS_FREE_LOCK(CONCAT('fencepost/', LEFT(SHA2(DATABASE(), 256), 40)))"))
	require.NoError(t, onMySQL.Check(t.Context(), db))
	status, err := onMySQL.Status(t.Context(), db)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), status[0].AppliedAt, time.Hour)

	require.NoError(t, onMySQL.Down(t.Context(), db))
	require.Zero(t, one[int](t, db, "SELECT count(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN ('fencepost_marks', 'fencepost_floor')"))
	require.NoError(t, onMySQL.Up(t.Context(), db))
	require.NoError(t, onMySQL.Check(t.Context(), db))
}

// CREATE TABLE commits, so an interruption can leave the state after any statement.
func TestUpOfMySQLGoesOnFromWhereItWasInterrupted(t *testing.T) {
	t.Parallel()
	script, err := onMySQL.SQL()
	require.NoError(t, err)
	var statements []string
	for _, text := range strings.SplitAfter(plain(script), ";") {
		if text = strings.TrimSpace(text); text != "" {
			statements = append(statements, text)
		}
	}
	require.Len(t, statements, 4)
	const versions = "CREATE TABLE fencepost_migrations (id bigint(20) unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, " +
		"version_id bigint NOT NULL, is_applied boolean NOT NULL, tstamp timestamp NULL default now())"
	for n := range len(statements) + 1 {
		db, _ := newMySQL(t)
		for _, statement := range append([]string{versions}, statements[:n]...) {
			must(t, db, statement)
		}
		require.NoError(t, onMySQL.Up(t.Context(), db), "interrupted behind %d statements", n)
		require.NoError(t, onMySQL.Check(t.Context(), db))
		require.Equal(t, applied(t, onMySQL), one[int](t, db, "SELECT count(*) FROM fencepost_migrations"))
		require.Equal(t, 1, one[int](t, db, "SELECT count(*) FROM fencepost_floor"))
	}
}

// plain returns a script without its comments.
func plain(script string) string {
	var text strings.Builder
	for line := range strings.Lines(script) {
		if !strings.HasPrefix(line, "--") {
			text.WriteString(line)
		}
	}
	return text.String()
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

func TestTenProcessesMigrateOneMySQLDatabaseAtOnce(t *testing.T) {
	t.Parallel()
	db, dsn := newMySQL(t)
	together(t, 10, "mysql", dsn, "")
	require.Equal(t, 1001*applied(t, onMySQL), one[int](t, db, "SELECT count(*) * 1000 + count(DISTINCT version_id) FROM fencepost_migrations"))
	require.NoError(t, onMySQL.Check(t.Context(), db))
}

func TestMarksOfMySQL(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]string{"strict": "STRICT_ALL_TABLES", "not strict": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, dsn := newMySQL(t)
			db, err := sql.Open("mysql", dsn+"?sql_mode=%27"+mode+"%27")
			require.NoError(t, err)
			opened(t, db)
			require.NoError(t, onMySQL.Up(t.Context(), db))
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
	t.Run("the twin, as text, takes other names for the same", func(t *testing.T) {
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
	for _, statement := range []string{"ALTER TABLE fencepost_marks ENGINE = MyISAM", "DROP TABLE fencepost_floor"} {
		must(t, db, statement)
	}
	err := onMySQL.Check(t.Context(), db)
	require.ErrorContains(t, err, "ALTER TABLE fencepost_marks ENGINE = InnoDB")
	require.ErrorContains(t, err, "table fencepost_floor is not there")
}

func TestGooseOfAHostOnMySQL(t *testing.T) {
	t.Parallel()
	files, err := onMySQL.FS()
	require.NoError(t, err)
	db, _ := newMySQL(t)
	provider, err := goose.NewProvider(goose.DialectMySQL, db, files, goose.WithDisableGlobalRegistry(true))
	require.NoError(t, err)
	for range 2 {
		_, err = provider.Up(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, onMySQL.Up(t.Context(), db), migrations.ErrUnversioned)
		require.NoError(t, onMySQL.Check(t.Context(), db))
		_, err = provider.DownTo(t.Context(), 0)
		require.NoError(t, err)
	}
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
	const tables = " WHERE table_name LIKE 'fencepost%'"
	for _, c := range []struct {
		own    migrations.Dialect
		seems  string
		db     func(t *testing.T) *sql.DB
		tables string
	}{
		{migrations.Postgres, "PostgreSQL", func(t *testing.T) *sql.DB { return newDatabase(t) }, "SELECT count(*) FROM information_schema.tables" + tables},
		{migrations.MySQL, "MySQL or MariaDB", func(t *testing.T) *sql.DB { db, _ := newMySQL(t); return db },
			"SELECT count(*) FROM information_schema.tables" + tables + " AND table_schema = DATABASE()"},
		{migrations.SQLite, "SQLite", func(t *testing.T) *sql.DB { db, _ := newSQLite(t); return db }, "SELECT count(*) FROM sqlite_master WHERE name LIKE 'fencepost%'"},
	} {
		t.Run(c.own.String(), func(t *testing.T) {
			t.Parallel()
			db := c.db(t)
			for _, dialect := range []migrations.Dialect{migrations.Postgres, migrations.MySQL, migrations.SQLite} {
				if dialect == c.own {
					continue
				}
				set := migrations.Set{Dialect: dialect}
				for name, work := range map[string]func(ctx context.Context, db *sql.DB) error{
					"Up": set.Up, "Check": set.Check, "Down": set.Down,
					"Status": func(ctx context.Context, db *sql.DB) error { _, err := set.Status(ctx, db); return err },
				} {
					err := work(t.Context(), db)
					require.ErrorContains(t, err, "migrations: Set.Dialect is "+dialect.String()+", and the database seems to be "+c.seems+": ", "%s of %s", name, dialect)
				}
			}
			require.Zero(t, one[int](t, db, c.tables))
			require.NoError(t, migrations.Set{Dialect: c.own}.Up(t.Context(), db), "the database can be used")
		})
	}
}
