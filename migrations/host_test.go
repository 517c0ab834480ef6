package migrations_test

import (
	"context"
	"database/sql"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/migrations"
)

// A program with goose migrations of its own, and Go ones in goose's global
// registry under a version that is ours too.
func TestUpBesideTheProgramsOwnGoose(t *testing.T) {
	t.Cleanup(goose.ResetGlobalMigrations)
	ran := 0
	goose.AddNamedMigrationContext("00002_host.go", func(ctx context.Context, tx *sql.Tx) error {
		ran++
		_, err := tx.ExecContext(ctx, "CREATE TABLE host_two (x integer)")
		return err
	}, nil)
	host := fstest.MapFS{"00001_host.sql": {Data: []byte("-- +goose Up\nCREATE TABLE host_one (x integer);\n")}}
	sqlite, _ := newSQLite(t)

	for _, c := range []struct {
		dialect goose.Dialect
		db      *sql.DB
		set     migrations.Set
		ours    string
	}{
		{goose.DialectPostgres, newDatabase(t), migrations.Set{}, "fencepost.fencepost_migrations"},
		{goose.DialectSQLite3, sqlite, migrations.Set{Dialect: migrations.SQLite}, "fencepost_migrations"},
	} {
		ran = 0
		require.NoError(t, c.set.Up(t.Context(), c.db))
		require.Zero(t, ran, "the program's migration ran under our version table")

		provider, err := goose.NewProvider(c.dialect, c.db, host)
		require.NoError(t, err)
		_, err = provider.Up(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, ran)

		require.NoError(t, c.set.Up(t.Context(), c.db))
		require.Equal(t, 1, ran)
		require.Equal(t, 2, one[int](t, c.db, "SELECT max(version_id) FROM goose_db_version"))
		require.Equal(t, applied(t, c.set), one[int](t, c.db, "SELECT count(*) FROM "+c.ours))
	}
}

// People who run goose themselves take FS, or a Set's.
func TestGooseGoesUpAndDown(t *testing.T) {
	t.Parallel()
	folder := func(name string) fs.FS {
		sub, err := fs.Sub(migrations.FS, name)
		require.NoError(t, err)
		return sub
	}
	other, err := migrations.Set{Schema: "other"}.FS()
	require.NoError(t, err)
	sqlite, _ := newSQLite(t)
	for name, c := range map[string]struct {
		dialect goose.Dialect
		db      *sql.DB
		files   fs.FS
		count   string
	}{
		"FS on PostgreSQL": {goose.DialectPostgres, newDatabase(t), folder("postgres"), "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = 'fencepost'"},
		"another schema":   {goose.DialectPostgres, newDatabase(t), other, "SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace WHERE nspname = 'other'"},
		"FS on SQLite":     {goose.DialectSQLite3, sqlite, folder("sqlite"), "SELECT count(*) FROM sqlite_master WHERE name LIKE 'fencepost%'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider, err := goose.NewProvider(c.dialect, c.db, c.files, goose.WithDisableGlobalRegistry(true))
			require.NoError(t, err)
			for range 2 {
				_, err = provider.Up(t.Context())
				require.NoError(t, err)
				require.NotZero(t, one[int](t, c.db, c.count))
				_, err = provider.DownTo(t.Context(), 0)
				require.NoError(t, err)
				require.Zero(t, one[int](t, c.db, c.count), "Down left something behind")
			}
		})
	}
}
