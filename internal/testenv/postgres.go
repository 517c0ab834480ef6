package testenv

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// poolSize lets one test run sixteen writers and their observers at once.
const poolSize = 32

var sharedPostgres = source{
	name: "PostgreSQL", env: EnvPostgres, url: postgresURL,
	local: func() (program, error) { return postgresProgram("fsync=off") },
}

// PostgresURL is the URL of the shared server, for tests that make connections
// of their own. What they create they name uniquely and remove.
func PostgresURL(t testing.TB) string {
	t.Helper()
	return sharedPostgres.URL(t)
}

// Postgres returns a pool of the shared server and the name of a schema that is
// migrated, empty and this test's alone. The search_path is the server's: the
// schema is not in it. At the end of the test the schema is dropped with all it
// has and the pool is closed; a connection that is still in use then is an error
// of the test.
func Postgres(t testing.TB) (pool *pgxpool.Pool, schema string) {
	t.Helper()
	pool = connect(t, PostgresURL(t))
	schema = unique("fencepost_test_")
	t.Cleanup(func() {
		drop := "DROP SCHEMA IF EXISTS " + pgx.Identifier{schema}.Sanitize() + " CASCADE"
		ctx, cancel := afterTest(t)
		defer cancel()
		if _, err := pool.Exec(ctx, drop); err != nil {
			t.Errorf("testenv: drop of schema %s: %v", schema, err)
		}
	})
	text, err := migrated(schema)
	if err == nil {
		_, err = pool.Exec(t.Context(), text)
	}
	if err != nil {
		t.Fatalf("testenv: migrate schema %s: %v", schema, err)
	}
	return pool, schema
}

func connect(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	config.MaxConns = poolSize
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(func() { closePool(t, pool) })
	if err := pool.Ping(t.Context()); err != nil {
		t.Fatalf("testenv: PostgreSQL does not answer: %v", err)
	}
	return pool
}

// closePool does not wait for ever, as Close would, for a connection that the
// test forgot.
func closePool(t testing.TB, pool *pgxpool.Pool) {
	for deadline := time.Now().Add(endTimeout); pool.Stat().AcquiredConns() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("testenv: the test is over and holds %d connections of its pool", pool.Stat().AcquiredConns())
			return
		}
	}
	pool.Close()
}
