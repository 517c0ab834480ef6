// Package bank is shared by the tests of the examples: an account in a real PostgreSQL,
// and a holder that is paused until its successor has written.
package bank

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/simulations/pgxpoint"
	"github.com/fencepost/fencepost/simulations/sqlpoint"
	"github.com/fencepost/fencepost/token"
)

// Resource is the resource of account 42.
const Resource = "account/42"

// Opening is its initial balance.
const Opening = 1_000_000

const accounts = "CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL);"

// Pool opens a migrated database for this test only. schema is the SQL that makes its
// tables, or "" for a table accounts (id, balance).
func Pool(t testing.TB, schema string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(testenv.Database(t))
	require.NoError(t, err)
	config.ConnConfig.Tracer = pgxpoint.Tracer{} // used by simulations only
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	require.NoError(t, migrations.Set{}.Up(t.Context(), db))
	if schema == "" {
		schema = accounts
	}
	_, err = pool.Exec(t.Context(), schema+fmt.Sprintf("INSERT INTO accounts (id, balance) VALUES (42, %d)", Opening))
	require.NoError(t, err)
	return pool
}

// DB is Pool over database/sql.
func DB(t testing.TB) *sql.DB {
	t.Helper()
	config := Pool(t, "").Config().ConnConfig
	config.Tracer = nil
	db := sql.OpenDB(sqlpoint.Wrap(stdlib.GetConnector(*config)))
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func tok(number int64) token.Token {
	return token.Token{Resource: Resource, Number: number, Holder: fmt.Sprintf("h%d", number)}
}

func holding(t testing.TB, tok token.Token) context.Context {
	return token.NewContext(t.Context(), tok)
}
