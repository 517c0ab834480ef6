package stdsql_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

const (
	patient  = "_pragma=busy_timeout(120000)" // nobody gives up on a slow machine
	hasty    = "_pragma=busy_timeout(0)"
	wal      = "_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)"
	rollback = "_pragma=journal_mode(DELETE)&_pragma=synchronous(OFF)"
)

func dsn(file, settings string) string { return "file:" + filepath.ToSlash(file) + "?" + settings }

// newFile makes a file of SQLite, as newSQLite does.
func newFile(t *testing.T, settings string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "test.db")
	sqliteAt(t, dsn(file, settings))
	return file
}

func sqliteAt(t *testing.T, dsn string) *database {
	t.Helper()
	require.NoError(t, migrations.Set{Dialect: migrations.SQLite}.Up(t.Context(), connect(t, "sqlite", dsn)))
	db := &database{driver: "sqlite", dsn: dsn, dialect: stdsql.SQLite, marks: "fencepost_marks"}
	return db.made(t, "INTEGER")
}

// newSQLite makes a database whose writers wait for each other.
func newSQLite(t *testing.T) *database {
	t.Helper()
	return sqliteAt(t, dsn(filepath.Join(t.TempDir(), "test.db"), patient+"&"+wal))
}

// onSQLite is a pool of a file that newFile made.
func onSQLite(t *testing.T, file, settings string) *database {
	t.Helper()
	pool := dsn(file, settings)
	return &database{DB: connect(t, "sqlite", pool), driver: "sqlite", dsn: pool, dialect: stdsql.SQLite, marks: "fencepost_marks"}
}

// databaseFile is the file of a pool.
func databaseFile(t *testing.T, db querier) string {
	t.Helper()
	return one[string](t, db, "SELECT file FROM pragma_database_list")
}
