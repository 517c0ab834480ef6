package testenv_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
)

func TestEachTestHasItsOwnMariaDBDatabase(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T) *sql.DB {
		db, err := sql.Open("mysql", testenv.MariaDB(t))
		require.NoError(t, err)
		t.Cleanup(func() { db.Close() })
		return db
	}
	name := func(db *sql.DB) (name string) {
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT DATABASE()").Scan(&name))
		return name
	}
	mine := open(t)
	var other string
	t.Run("another test", func(t *testing.T) {
		db := open(t)
		other = name(db)
		require.NotEqual(t, name(mine), other)
		var tables int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM information_schema.tables WHERE table_schema = DATABASE()").Scan(&tables))
		require.Zero(t, tables, "the database is empty")
	})
	var left int
	require.NoError(t, mine.QueryRowContext(t.Context(), "SELECT count(*) FROM information_schema.schemata WHERE schema_name = ?", other).Scan(&left))
	require.Zero(t, left, "a database outlived its test")
}

func TestAPasswordIsNotShown(t *testing.T) {
	t.Parallel()
	shown, err := testenv.ShownDSN("root:secret@tcp(db:3306)/")
	require.NoError(t, err)
	require.Equal(t, "root@tcp(db:3306)", shown)
	_, err = testenv.ShownDSN("root:secret@db")
	require.EqualError(t, err, "testenv: FENCEPOST_TEST_MARIADB_URL is not a DSN")
}
