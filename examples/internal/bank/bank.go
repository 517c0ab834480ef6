// Package bank is shared by the tests of the examples: an account in a real PostgreSQL.
package bank

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/simulations/pgxpoint"
)

// Opening is the initial balance of account 42.
const Opening = 1_000_000

// Pool opens a migrated database for this test only. schema is the SQL that makes its
// tables, among them accounts (id, balance).
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
	_, err = pool.Exec(t.Context(), schema+fmt.Sprintf("INSERT INTO accounts (id, balance) VALUES (42, %d)", Opening))
	require.NoError(t, err)
	return pool
}

// DB is Pool over database/sql, with a table accounts only.
func DB(t testing.TB) *sql.DB {
	t.Helper()
	db := stdlib.OpenDBFromPool(Pool(t, "CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL);"))
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}
