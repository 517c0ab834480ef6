package stdsql_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/token"
)

const (
	account  = "account/42"
	patient  = "_pragma=busy_timeout(120000)" // nobody gives up on a slow machine
	hasty    = "_pragma=busy_timeout(0)"
	wal      = "_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)"
	rollback = "_pragma=journal_mode(DELETE)&_pragma=synchronous(OFF)"
)

func dsn(file, settings string) string { return "file:" + filepath.ToSlash(file) + "?" + settings }

// newFile makes a database with an account of 100, and the marks.
func newFile(t *testing.T, settings string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "test.db")
	db := connect(t, dsn(file, settings))
	require.NoError(t, migrations.Set{Dialect: migrations.SQLite}.Up(t.Context(), db))
	run(t, db, "CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)")
	run(t, db, "CREATE TABLE ledger (seq INTEGER PRIMARY KEY, resource TEXT, number INTEGER, holder TEXT)")
	run(t, db, "INSERT INTO accounts VALUES (42, 100)")
	return file
}

func connect(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// newDB makes a database whose writers wait for each other.
func newDB(t *testing.T) *sql.DB {
	t.Helper()
	return connect(t, dsn(newFile(t, patient+"&"+wal), patient+"&"+wal))
}

func run(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), query, args...)
	require.NoError(t, err)
}

func balance(t *testing.T, db *sql.DB) int {
	t.Helper()
	got, err := read(t.Context(), db)
	require.NoError(t, err)
	return got
}

func mark(t *testing.T, db *sql.DB, resource string) (m guard.Mark) {
	t.Helper()
	row := db.QueryRowContext(t.Context(), "SELECT number, holder FROM fencepost_marks WHERE resource = ?", resource)
	if err := row.Scan(&m.Number, &m.Holder); err != sql.ErrNoRows {
		require.NoError(t, err)
	}
	return m
}

func tok(number int64, holder string) token.Token {
	return token.Token{Resource: account, Number: number, Holder: holder}
}

// holding is a context with a token of the account.
func holding(t *testing.T, number int64, holder string) context.Context {
	t.Helper()
	return token.NewContext(t.Context(), tok(number, holder))
}

type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func read(ctx context.Context, q querier) (balance int, err error) {
	err = q.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = 42").Scan(&balance)
	return balance, err
}

func write(ctx context.Context, q querier, balance int) error {
	_, err := q.ExecContext(ctx, "UPDATE accounts SET balance = ? WHERE id = 42", balance)
	return err
}

// add is a read-modify-write.
func add(ctx context.Context, amount int) func(tx *sql.Tx) error {
	return func(tx *sql.Tx) error {
		balance, err := read(ctx, tx)
		if err != nil {
			return err
		}
		return write(ctx, tx, balance+amount)
	}
}
