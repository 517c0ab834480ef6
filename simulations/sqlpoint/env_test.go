package sqlpoint_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/simulations/sqlpoint"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// env is a database with a table of notes, and a plain connection to it.
type env struct {
	plain, traced *sql.DB
	table         string
	dialect       stdsql.Dialect
	schema        string
}

func (e env) insert(id int) string {
	return fmt.Sprintf("INSERT INTO %s (id) VALUES (%d)", e.table, id)
}

func (e env) notes(t *testing.T) (n int) {
	t.Helper()
	require.NoError(t, e.plain.QueryRow("SELECT count(*) FROM "+e.table).Scan(&n))
	return n
}

func (e env) made(t *testing.T) env {
	t.Helper()
	for _, db := range []*sql.DB{e.plain, e.traced} {
		t.Cleanup(func() { require.NoError(t, db.Close()) })
	}
	_, err := e.plain.Exec("CREATE TABLE " + e.table + " (id bigint PRIMARY KEY, text varchar(20))")
	require.NoError(t, err)
	return e
}

func onSQLite(t *testing.T) env {
	t.Helper()
	dsn := "file:" + filepath.ToSlash(filepath.Join(t.TempDir(), "test.db")) +
		"?_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)"
	plain, err := sql.Open("sqlite", dsn)
	require.NoError(t, err)
	require.NoError(t, migrations.Set{Dialect: migrations.SQLite}.Up(t.Context(), plain))
	traced, err := sqlpoint.Open("sqlite", dsn)
	require.NoError(t, err)
	return env{plain, traced, "notes", stdsql.SQLite, ""}.made(t)
}

func onPostgres(t *testing.T) env {
	t.Helper()
	pool, schema := testenv.Postgres(t)
	config := *pool.Config().ConnConfig
	return env{
		sql.OpenDB(stdlib.GetConnector(config)),
		sql.OpenDB(sqlpoint.Wrap(stdlib.GetConnector(config))),
		pgx.Identifier{schema, "notes"}.Sanitize(),
		stdsql.Postgres, schema,
	}.made(t)
}

func onMariaDB(t *testing.T) env {
	t.Helper()
	config, err := mysql.ParseDSN(testenv.MariaDB(t))
	require.NoError(t, err)
	connector, err := mysql.NewConnector(config)
	require.NoError(t, err)
	e := env{sql.OpenDB(connector), sql.OpenDB(sqlpoint.Wrap(connector)), "notes", stdsql.MySQL, ""}.made(t)
	require.NoError(t, migrations.Set{Dialect: migrations.MySQL}.Up(t.Context(), e.plain))
	return e
}

// guard is one over the traced connections, whose transactions a busy machine may leave
// idle.
func (e env) guard() *stdsql.Guard {
	return &stdsql.Guard{DB: e.traced, Dialect: e.dialect, Schema: e.schema, IdleTimeout: time.Hour}
}

var databases = map[string]func(t *testing.T) env{"SQLite": onSQLite, "PostgreSQL": onPostgres}

var errMine = errors.New("mine")

// onConn runs do on one connection.
func onConn(ctx context.Context, db *sql.DB, do func(conn *sql.Conn) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return do(conn)
}

func inTx(ctx context.Context, db *sql.DB, do func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// run is one statement.
func run(ctx context.Context, q interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, query string, args ...any) error {
	_, err := q.ExecContext(ctx, query, args...)
	return err
}

func unwrap(t *testing.T, db *sql.DB) (base driver.Conn) {
	t.Helper()
	require.NoError(t, onConn(t.Context(), db, func(conn *sql.Conn) error {
		return conn.Raw(func(c any) error {
			base = c.(interface{ Unwrap() driver.Conn }).Unwrap()
			return nil
		})
	}))
	return base
}
