package testenv

import (
	_ "embed"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/migrations"
)

// poolSize is enough for sixteen writers and their observers in one test.
const poolSize = 32

var sharedPostgres = source{
	name: "PostgreSQL", env: EnvPostgres, url: postgresURL,
	local: func() (serverproc.Program, error) { return postgresProgram("fsync=off") },
}

// PostgresURL returns the URL of the shared server, for tests that make connections of
// their own. They must give unique names to what they create, and remove it.
func PostgresURL(t testing.TB) string {
	t.Helper()
	return sharedPostgres.URL(t)
}

// Postgres returns a pool of the shared server and the name of an empty, migrated schema
// for this test. The schema is not in the search_path. At the end of the test the schema
// is dropped and the pool is closed. If a connection is still in use then, the test
// fails.
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

// closePool does not wait for ever, as Close does, for a connection that the test has not
// released.
func closePool(t testing.TB, pool *pgxpool.Pool) {
	for deadline := time.Now().Add(endTimeout); pool.Stat().AcquiredConns() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("testenv: the test is over and holds %d connections of its pool", pool.Stat().AcquiredConns())
			return
		}
	}
	pool.Close()
}

//go:embed versions.sql
var versionsSQL string

// anySchema is the name in script that is replaced by the schema's.
const anySchema = "fencepost_test_template"

// Migrate applies all migrations to an empty database, in the default schema. url must
// belong to a superuser.
func Migrate(t testing.TB, url string) {
	t.Helper()
	text, err := migrated("fencepost")
	if err != nil {
		t.Fatalf("testenv: migrate: %v", err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatalf("testenv: migrate: %v", err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), text); err != nil {
		t.Fatalf("testenv: migrate: %v", err)
	}
}

// migrated returns the SQL that makes a schema as migrations.Set.Up leaves it, in one
// transaction and one packet. Nearly every test begins with that, and Up, which checks
// each step, takes ten times as long. PostgreSQL does not check the bodies of functions
// here. The tests of package migrations check them through Up.
func migrated(schema string) (string, error) {
	text, err := script()
	return "SELECT set_config('check_function_bodies', 'off', true);\n" + strings.ReplaceAll(text, anySchema, schema), err
}

var script = sync.OnceValues(func() (string, error) {
	set := migrations.Set{Schema: anySchema}
	tables, err := set.SQL()
	if err != nil {
		return "", err
	}
	files, err := set.FS()
	if err != nil {
		return "", err
	}
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(versionsSQL)
	for _, name := range names {
		version, _, _ := strings.Cut(name, "_")
		fmt.Fprintf(&b, "INSERT INTO %s.fencepost_migrations (version_id, is_applied) VALUES (%s, true);\n", anySchema, version)
	}
	return b.String() + tables, nil
})

//go:embed postgres.sh
var postgresScript string

func postgresURL(port int) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
}

// localSettings are those of every local server. Shared memory that is a file of its folder
// is removed with it, even after a kill.
var localSettings = []string{"listen_addresses=127.0.0.1", "unix_socket_directories=", "dynamic_shared_memory_type=mmap"}

func postgresProgram(settings ...string) (serverproc.Program, error) {
	bin, version, err := postgresBinary()
	if err != nil {
		return serverproc.Program{}, err
	}
	argv := func(folder string, port int) []string {
		args := []string{"sh", "-c", postgresScript, "sh", bin, filepath.Join(folder, "data"), "-p", fmt.Sprint(port)}
		for _, s := range slices.Concat(localSettings, []string{"max_connections=200"}, settings) {
			args = append(args, "-c", s)
		}
		return args
	}
	return serverproc.Program{
		Title: "version " + version + " of " + bin, Argv: argv,
		Ready: "database system is ready to accept connections", Signal: "QUIT",
	}, nil
}
