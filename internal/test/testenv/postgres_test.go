package testenv_test

import (
	_ "embed"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
)

const schemaExists = "SELECT count(*) > 0 FROM pg_namespace WHERE nspname = $1"

func TestEachTestHasItsOwnMigratedSchema(t *testing.T) {
	t.Parallel()
	pool, mine := testenv.Postgres(t)
	var schemas []string
	var wasThere bool
	for range 2 {
		t.Run("another test", func(t *testing.T) {
			own, schema := testenv.Postgres(t)
			schemas = append(schemas, schema)
			require.NoError(t, own.QueryRow(t.Context(), schemaExists, schema).Scan(&wasThere))
			require.True(t, wasThere)
			_, err := own.Exec(t.Context(), "SELECT FROM "+schema+".marks")
			require.NoError(t, err)
		})
	}
	require.NotEqual(t, schemas[0], schemas[1])
	require.NotContains(t, schemas, mine)
	for _, schema := range schemas {
		var left bool
		require.NoError(t, pool.QueryRow(t.Context(), schemaExists, schema).Scan(&left))
		require.False(t, left, "schema %s outlived its test", schema)
	}
}

func TestTheSharedServerTakesManyConnections(t *testing.T) {
	t.Parallel()
	pool, _ := testenv.Postgres(t)
	for range 17 {
		conn, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		defer conn.Release()
		require.NoError(t, conn.Ping(t.Context()))
	}
}

//go:embed catalog_test.sql
var catalogSQL string

// Tests get their schemas from a shortcut, which must make the same schema as Up.
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

func TestACrashLosesUnflushedCommitsOnly(t *testing.T) {
	t.Parallel()
	spare := testenv.SparePostgres(t)
	conn := open(t, spare.URL())
	require.Equal(t, []string{"on"}, column[string](t, conn, "SHOW fsync"))
	run(t, conn, "CREATE TABLE kept (round int, synchronous boolean)")
	for round := range 2 {
		run(t, conn, "SET synchronous_commit = on")
		run(t, conn, "INSERT INTO kept VALUES ($1, true)", round)
		run(t, conn, "SET synchronous_commit = off")
		run(t, conn, "INSERT INTO kept VALUES ($1, false)", round)
		require.Equal(t, []bool{false, true}, column[bool](t, open(t, spare.URL()),
			"SELECT synchronous FROM kept WHERE round = $1 ORDER BY 1", round), "both are committed and seen by others")
		// Three times as long as the WAL writer waits if it is not stopped.
		time.Sleep(600 * time.Millisecond)

		spare.Crash()

		require.Error(t, conn.Ping(t.Context()), "the connection outlived the server")
		conn = open(t, spare.URL())
		require.Equal(t, []bool{true}, column[bool](t, conn,
			"SELECT synchronous FROM kept WHERE round = $1", round))
	}
}

func open(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(t.Context()) })
	return conn
}

func run(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func column[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) []T {
	t.Helper()
	rows, err := conn.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	require.NoError(t, err)
	return values
}
