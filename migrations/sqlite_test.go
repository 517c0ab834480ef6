package migrations_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
)

func TestUpOfSQLiteWaitsAsLongAsItsContext(t *testing.T) {
	t.Parallel()
	db, _ := newSQLite(t)
	writer, err := db.Conn(t.Context())
	require.NoError(t, err)
	must(t, writer, "BEGIN EXCLUSIVE")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err = onSQLite.Up(ctx, db)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "migrations: sqlite: ")

	wait := pgtest.Later(t, func() error { return onSQLite.Up(t.Context(), db) })
	must(t, writer, "COMMIT")
	require.NoError(t, wait())
	require.NoError(t, writer.Close())
}

// newDatabase creates an empty PostgreSQL database for a test that needs more than a
// schema, and connects to it. The settings apply to every connection.
func newDatabase(t *testing.T, settings ...string) *sql.DB {
	t.Helper()
	config, err := pgx.ParseConfig(testenv.PostgresURL(t))
	require.NoError(t, err)
	admin := stdlib.OpenDB(*config)
	t.Cleanup(func() { admin.Close() })
	config.Database = "fencepost_test_" + strings.ToLower(rand.Text()[:13])
	must(t, admin, "CREATE DATABASE "+config.Database)
	t.Cleanup(func() {
		_, err := admin.ExecContext(context.WithoutCancel(t.Context()), "DROP DATABASE "+config.Database+" WITH (FORCE)")
		require.NoError(t, err)
	})
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		config.RuntimeParams[name] = value
	}
	return opened(t, stdlib.OpenDB(*config))
}

// newSQLite creates an empty SQLite database in a file.
func newSQLite(t *testing.T) (db *sql.DB, url string) {
	t.Helper()
	url = "file:" + filepath.ToSlash(filepath.Join(t.TempDir(), "test.db"))
	db, err := sql.Open("sqlite", url)
	require.NoError(t, err)
	return opened(t, db), url
}

func opened(t *testing.T, db *sql.DB) *sql.DB {
	t.Helper()
	t.Cleanup(func() { db.Close() })
	return db
}

// must runs a statement that must succeed.
func must(t *testing.T, on executor, text string, args ...any) {
	t.Helper()
	_, err := on.ExecContext(t.Context(), text, args...)
	require.NoError(t, err, text)
}

// one returns the single value of a query.
func one[T any](t *testing.T, db *sql.DB, query string, args ...any) T {
	t.Helper()
	var value T
	require.NoError(t, db.QueryRowContext(t.Context(), query, args...).Scan(&value))
	return value
}

func TestTenProcessesMigrateAtOnce(t *testing.T) {
	t.Parallel()
	const query = "SELECT count(*) * 1000 + count(DISTINCT version_id) FROM "
	t.Run("one PostgreSQL schema that is not there yet", func(t *testing.T) {
		t.Parallel()
		f := newFence(t)
		schema := f.schema + "_ten"
		f.atEnd(t, "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
		together(t, 10, "pgx", testenv.PostgresURL(t), schema)
		n := applied(t, migrations.Set{})
		require.Equal(t, 1001*n, get[int](t, f, f, query+pgx.Identifier{schema, "fencepost_migrations"}.Sanitize()))
	})
	for name, c := range map[string]struct {
		set    migrations.Set
		driver string
		open   func(t *testing.T) (*sql.DB, string)
	}{
		"one SQLite file that is empty yet": {onSQLite, "sqlite", newSQLite}, "one empty MariaDB database": {onMySQL, "mysql", newMySQL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, url := c.open(t)
			together(t, 10, c.driver, url, "")
			require.Equal(t, 1001*applied(t, c.set), one[int](t, db, query+"fencepost_migrations"))
			require.NoError(t, c.set.Check(t.Context(), db))
		})
	}
}

// together lets n processes of this test binary migrate at the same time.
func together(t *testing.T, n int, driver, url, schema string) {
	t.Helper()
	processes := make([]*exec.Cmd, n)
	starts := make([]io.Closer, n)
	said := make([]bytes.Buffer, n)
	for i := range processes {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), envDriver+"="+driver, envURL+"="+url, envSchema+"="+schema)
		cmd.Stderr = &said[i]
		start, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		ready, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "ready\n", ready)
		processes[i], starts[i] = cmd, start
	}
	for _, start := range starts {
		require.NoError(t, start.Close())
	}
	for i, cmd := range processes {
		require.NoError(t, cmd.Wait(), said[i].String())
	}
}
