// Package bank is shared by the tests of the examples: a database in a real PostgreSQL.
package bank

import (
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/simulations/pgxpoint"
)

// Database returns the URL of a migrated database for this test only, in which tables, an SQL
// script, has run. The examples use the default schema, as a program does.
func Database(t testing.TB, tables string) (url string) {
	t.Helper()
	url = testenv.Database(t)
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	defer pool.Close()
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	require.NoError(t, migrations.Set{}.Up(t.Context(), db))
	_, err = pool.Exec(t.Context(), tables)
	require.NoError(t, err)
	return url
}

// Pool is an open [Database].
func Pool(t testing.TB, tables string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(Database(t, tables))
	require.NoError(t, err)
	config.ConnConfig.Tracer = pgxpoint.Tracer{} // used by simulations only
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// DB is Pool over database/sql.
func DB(t testing.TB, tables string) *sql.DB {
	t.Helper()
	db := stdlib.OpenDBFromPool(Pool(t, tables))
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}
