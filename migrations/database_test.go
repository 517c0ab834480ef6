package migrations_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
)

// newDatabase makes an empty PostgreSQL database for a test that needs more
// than a schema, and connects to it; each setting is for every connection.
func newDatabase(t *testing.T, settings ...string) *sql.DB {
	t.Helper()
	config, err := pgx.ParseConfig(testenv.PostgresURL(t))
	require.NoError(t, err)
	admin := stdlib.OpenDB(*config)
	t.Cleanup(func() { admin.Close() })
	config.Database = "fencepost_test_" + strings.ToLower(rand.Text()[:13])
	_, err = admin.ExecContext(t.Context(), "CREATE DATABASE "+config.Database)
	require.NoError(t, err)
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

// newSQLite makes an empty SQLite database in a file.
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

// one returns the one value that a query returns.
func one[T any](t *testing.T, db *sql.DB, query string, args ...any) T {
	t.Helper()
	var value T
	require.NoError(t, db.QueryRowContext(t.Context(), query, args...).Scan(&value))
	return value
}
