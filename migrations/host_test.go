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
	ran, back := 0, 0
	goose.AddNamedMigrationContext("00002_host.go", func(ctx context.Context, tx *sql.Tx) error {
		ran++
		_, err := tx.ExecContext(ctx, "CREATE TABLE host_two (x integer)")
		return err
	}, func(context.Context, *sql.Tx) error {
		back++
		return nil
	})
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
		status, err := c.set.Status(t.Context(), c.db)
		require.NoError(t, err)
		require.Len(t, status, applied(t, c.set)-1, "the program's migration is none of ours")
		require.NoError(t, c.set.Check(t.Context(), c.db))

		require.NoError(t, c.set.Down(t.Context(), c.db))
		require.Zero(t, back, "the program's migration was taken back under our version table")
		require.Equal(t, 2, one[int](t, c.db, "SELECT max(version_id) FROM goose_db_version"))
		require.Zero(t, one[int](t, c.db, "SELECT count(*) FROM host_two"))
	}
}

// What the documentation of FS prints, beside the program's own goose.
func TestFSWithAVersionTableOfItsOwn(t *testing.T) {
	t.Cleanup(goose.ResetGlobalMigrations)
	goose.AddNamedMigrationContext("00002_host.go", func(context.Context, *sql.Tx) error { return nil }, nil)
	db := newDatabase(t)
	for range 2 {
		require.NoError(t, upgrade(t.Context(), db))
		require.NoError(t, migrations.Check(t.Context(), db))
	}
	require.Equal(t, applied(t, migrations.Set{}), one[int](t, db, "SELECT count(*) FROM fencepost_versions"))
	require.Zero(t, one[int](t, db, "SELECT count(*) FROM pg_class WHERE relname = 'goose_db_version'"))

	sub, err := fs.Sub(migrations.FS, "postgres")
	require.NoError(t, err)
	_, err = goose.NewProvider(goose.DialectPostgres, newDatabase(t), sub)
	require.ErrorContains(t, err, "00002", "the twin: the program's migration is taken for one of ours")
}

// A program whose goose is the package's own functions, global registry and all.
func TestTheProgramsGlobalGoose(t *testing.T) {
	goose.SetBaseFS(migrations.FS)
	goose.SetTableName("host_versions")
	goose.SetLogger(goose.NopLogger())
	t.Cleanup(func() {
		goose.SetBaseFS(nil)
		goose.SetTableName(goose.DefaultTablename)
	})
	require.NoError(t, goose.SetDialect("postgres"))
	db := newDatabase(t)
	require.NoError(t, goose.UpContext(t.Context(), db, "postgres"))
	require.NoError(t, migrations.Check(t.Context(), db))
	require.ErrorIs(t, migrations.Up(t.Context(), db), migrations.ErrUnversioned)
	require.NoError(t, goose.DownToContext(t.Context(), db, "postgres", 0))
	require.Error(t, migrations.Check(t.Context(), db))
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
		set     migrations.Set
		count   string
	}{
		"FS on PostgreSQL": {goose.DialectPostgres, newDatabase(t), folder("postgres"), migrations.Set{}, "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = 'fencepost'"},
		"another schema":   {goose.DialectPostgres, newDatabase(t), other, migrations.Set{Schema: "other"}, "SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace WHERE nspname = 'other'"},
		"FS on SQLite":     {goose.DialectSQLite3, sqlite, folder("sqlite"), migrations.Set{Dialect: migrations.SQLite}, "SELECT count(*) FROM sqlite_master WHERE name LIKE 'fencepost%'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider, err := goose.NewProvider(c.dialect, c.db, c.files, goose.WithDisableGlobalRegistry(true))
			require.NoError(t, err)
			for range 2 {
				_, err = provider.Up(t.Context())
				require.NoError(t, err)
				require.NotZero(t, one[int](t, c.db, c.count))
				require.NoError(t, c.set.Check(t.Context(), c.db))
				_, err = provider.DownTo(t.Context(), 0)
				require.NoError(t, err)
				require.Zero(t, one[int](t, c.db, c.count), "Down left something behind")
			}
		})
	}
}
