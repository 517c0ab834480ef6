package stdsql_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

const account = "account/42"

// envs are the kinds of databases. What is true of a Guard is true on each.
var envs = []func(t *testing.T) *database{newPostgres, newMySQL, newSQLite}

// onEach runs a test on a database of each kind.
func onEach(t *testing.T, test func(t *testing.T, db *database)) {
	t.Helper()
	for i, name := range []string{"PostgreSQL", "MariaDB", "SQLite"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, envs[i](t))
		})
	}
}

// database has the marks, and an account of 100.
type database struct {
	*sql.DB
	driver, dsn string
	dialect     stdsql.Dialect
	schema      string
	marks       string // the table
}

// made makes the tables of the tests.
func (db *database) made(t *testing.T, serial string) *database {
	t.Helper()
	db.DB = db.connect(t)
	run(t, db, "CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)")
	run(t, db, "CREATE TABLE ledger (seq "+serial+" PRIMARY KEY, resource VARCHAR(200), number BIGINT, holder VARCHAR(200))")
	run(t, db, "INSERT INTO accounts VALUES (42, 100)")
	return db
}

// connect makes another pool.
func (db *database) connect(t *testing.T) *sql.DB {
	t.Helper()
	return connect(t, db.driver, db.dsn)
}

func connect(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

func (db *database) guard() *stdsql.Guard { return db.over(db.DB) }

// over is the guard of another pool.
func (db *database) over(pool *sql.DB) *stdsql.Guard {
	return &stdsql.Guard{DB: pool, Dialect: db.dialect, Schema: db.schema}
}

// update is the Update of a guard with nothing special.
func (db *database) update(ctx context.Context, fn func(tx *sql.Tx) error) error {
	return db.guard().Update(ctx, account, fn)
}

func (db *database) claim(t *testing.T, toks ...token.Token) {
	t.Helper()
	for _, tok := range toks {
		require.NoError(t, db.guard().Admit(t.Context(), tok))
	}
}

func (db *database) mark(t *testing.T, resource string) (m guard.Mark) {
	t.Helper()
	literal := fmt.Sprintf("'%s'", resource)
	row := db.QueryRowContext(t.Context(), "SELECT number, holder FROM "+db.marks+" WHERE resource = "+literal)
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
