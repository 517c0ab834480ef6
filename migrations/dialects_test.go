package migrations_test

import (
	"database/sql"
	"testing"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/migrations"
)

var (
	onMySQL  = migrations.Set{Dialect: migrations.MySQL}
	onSQLite = migrations.Set{Dialect: migrations.SQLite}
)

// dialect is a kind of database, with what differs in the tests that run on each.
type dialect struct {
	set   migrations.Set
	goose goose.Dialect
	// open creates an empty database. Where sessions have a time zone, it is none of whole hours.
	open     func(t *testing.T) *sql.DB
	things   string // counts all tables and functions
	versions string // the version table
}

var dialects = map[string]dialect{
	"on PostgreSQL": {migrations.Set{}, goose.DialectPostgres,
		func(t *testing.T) *sql.DB { return newDatabase(t, "TimeZone=Asia/Kathmandu") },
		"SELECT (SELECT count(*) FROM pg_class) + (SELECT count(*) FROM pg_proc)", "fencepost.fencepost_migrations"},
	"on SQLite": {onSQLite, goose.DialectSQLite3,
		func(t *testing.T) *sql.DB { db, _ := newSQLite(t); return db },
		"SELECT count(*) FROM sqlite_master", "fencepost_migrations"},
	"on MariaDB": {onMySQL, goose.DialectMySQL,
		func(t *testing.T) *sql.DB {
			_, dsn := newMySQL(t)
			db, err := sql.Open("mysql", dsn+"?time_zone=%27%2B05:45%27")
			require.NoError(t, err)
			return opened(t, db)
		},
		"SELECT count(*) FROM information_schema.tables WHERE table_schema = DATABASE()", "fencepost_migrations"},
}

// onEach runs a test on an empty database of each dialect.
func onEach(t *testing.T, test func(t *testing.T, d dialect, db *sql.DB)) {
	t.Helper()
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, d, d.open(t))
		})
	}
}
