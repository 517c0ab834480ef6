package testenv_test

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/migrations"
)

//go:embed catalog_test.sql
var catalogSQL string

// Tests get their schemas by a short cut, which must lead to the same place.
func TestTheSchemaOfATestIsTheOneThatUpMakes(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	slow := schema + "_up"
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	require.NoError(t, migrations.Set{Schema: slow}.Up(t.Context(), db))
	defer func() {
		_, err := pool.Exec(t.Context(), "DROP SCHEMA "+slow+" CASCADE")
		require.NoError(t, err)
	}()
	made := catalog(t, pool, slow)
	require.Contains(t, made, "function | SCHEMA.admit(")
	require.Contains(t, made, "relation | leases |")
	require.Equal(t, made, catalog(t, pool, schema))
	require.Equal(t, versions(t, pool, slow), versions(t, pool, schema))
}

func catalog(t *testing.T, pool *pgxpool.Pool, schema string) string {
	t.Helper()
	return strings.Join(all[string](t, pool, catalogSQL, schema), "\n")
}

func versions(t *testing.T, pool *pgxpool.Pool, schema string) []string {
	t.Helper()
	return all[string](t, pool, "SELECT concat_ws(' ', id, version_id, is_applied, age(tstamp, now() AT TIME ZONE 'UTC') < '1 h') FROM "+
		schema+".fencepost_migrations ORDER BY id")
}

func all[T any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) []T {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	require.NoError(t, err)
	return values
}
