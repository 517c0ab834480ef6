package migrations_test

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/migrations"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d dialect, db *sql.DB) {
		status := func() []migrations.Migration {
			t.Helper()
			status, err := d.set.Status(t.Context(), db)
			require.NoError(t, err)
			require.Len(t, status, newest(t, d.set))
			return status
		}
		things := one[int](t, db, d.things)
		none := status()
		last := map[migrations.Dialect]string{migrations.Postgres: "00010_admin.sql"}[d.set.Dialect]
		for i, m := range none {
			require.Equal(t, migrations.Migration{Version: int64(i + 1), File: m.File}, m)
			require.True(t, strings.HasPrefix(m.File, fmt.Sprintf("%05d_", i+1)), "no number is left out")
		}
		require.Equal(t, "00001_marks.sql", none[0].File)
		require.Equal(t, cmp.Or(last, "00002_once.sql"), none[len(none)-1].File)
		require.Equal(t, things, one[int](t, db, d.things), "Status made something")

		start := time.Now().Add(-time.Second) // the column's resolution
		require.NoError(t, d.set.Up(t.Context(), db))
		for i, m := range status() {
			require.Equal(t, none[i].File, m.File)
			require.WithinRange(t, m.AppliedAt, start, time.Now())
		}
		require.NoError(t, d.set.Down(t.Context(), db))
		require.Equal(t, none, status())
	})
}

func TestStatusNeedsTheRightToRead(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	db, set := application(t, f), migrations.Set{Schema: f.schema}
	_, err := set.Status(t.Context(), db)
	require.ErrorContains(t, err, `migrations: postgres: versions in "`+f.schema+`".fencepost_migrations: `)
	require.Equal(t, "42501", code(err))

	require.NoError(t, f.exec(t.Context(), f, f.named("GRANT SELECT ON "+f.sql("fence.")+"fencepost_migrations TO fence.role")))
	status, err := set.Status(t.Context(), db)
	require.NoError(t, err)
	require.Len(t, status, applied(t, set)-1)
}

// A database that a newer library has migrated.
func TestNewerDatabase(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx, db, set := t.Context(), sqlDB(t, f), migrations.Set{Schema: f.schema}
	require.NoError(t, f.exec(ctx, f, "INSERT INTO fence.fencepost_migrations (version_id, is_applied) VALUES (99, true)"))
	before := catalog(t, f)

	status, err := set.Status(ctx, db)
	require.NoError(t, err)
	require.EqualValues(t, 99, status[len(status)-1].Version)
	require.Empty(t, status[len(status)-1].File)
	require.False(t, status[len(status)-1].AppliedAt.IsZero())
	require.NoError(t, set.Up(ctx, db), "an old program beside new ones")
	require.ErrorContains(t, set.Down(ctx, db), "migrations: postgres: the database is at version 99, newer than this program's 10: use a newer program")
	require.Equal(t, before, catalog(t, f), "Down began what it cannot end")
}

// Tables that another goose or a script has created are not changed.
func TestUnversioned(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d dialect, db *sql.DB) {
		script, err := d.set.SQL()
		require.NoError(t, err)
		for _, statement := range statements(d, script) {
			must(t, db, statement)
		}
		before := one[int](t, db, d.things)
		_, err = d.set.Status(t.Context(), db)
		for _, err := range []error{err, d.set.Up(t.Context(), db), d.set.Down(t.Context(), db)} {
			require.ErrorIs(t, err, migrations.ErrUnversioned)
			require.EqualError(t, err, migrations.ErrUnversioned.Error(), "it has the package's name once")
		}
		require.NoError(t, d.set.Check(t.Context(), db))
		require.Equal(t, before, one[int](t, db, d.things))
	})
}

// hazard G13
var oddNames = []string{
	`we"ird; drop`, `o'brien`, `back\slash`, `Größe`, `$fencepost$`,
	`'; DROP SCHEMA "x" CASCADE; --`, `"`, `a.b`, `100%s`, `:name`, ` padded `, `UPPER`, `\'`, `$$`, `$fencepost$ $fencepost1$`, `x; -- y`, `-- +goose Down`, `public2`,
	strings.Repeat("x", 63),
}

func TestSchemasOfAnyName(t *testing.T)       { namedSchemas(t, oddNames[:5]) }
func TestStressSchemasOfAnyName(t *testing.T) { namedSchemas(t, oddNames) }

func namedSchemas(t *testing.T, names []string) {
	t.Parallel()
	host := newFence(t)
	for _, name := range names {
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			t.Parallel()
			f := fence{host.Pool, name}
			quoted := pgx.Identifier{name}.Sanitize()
			drop := "DROP SCHEMA IF EXISTS " + quoted + " CASCADE"
			f.atEnd(t, drop)
			set := migrations.Set{Schema: name}
			db := sqlDB(t, f, "SET standard_conforming_strings = off") // where a backslash escapes
			require.ErrorContains(t, set.Check(t.Context(), db), "schema "+quoted+" is not there")
			for range 2 {
				require.NoError(t, set.Up(t.Context(), db))
			}
			everything(t, f)

			must(t, db, drop)
			script, err := set.SQL()
			require.NoError(t, err)
			must(t, db, script)
			everything(t, f)
			require.NoError(t, set.Check(t.Context(), db))
			must(t, db, "ALTER SEQUENCE "+quoted+".numbers CYCLE")
			remedy := one[string](t, db, "SELECT format('ALTER SEQUENCE %I.numbers NO CYCLE', $1::text)", name)
			require.ErrorContains(t, set.Check(t.Context(), db), remedy)
		})
	}
}

// everything calls every function of a fence once.
func everything(t *testing.T, f fence) {
	t.Helper()
	ctx := t.Context()
	tx := f.begin(t, pgx.ReadCommitted)
	require.NoError(t, f.admit(ctx, tx, "account/42", 5, "a"))
	require.NoError(t, f.admit(ctx, tx, "account/42", 5, "a"))
	require.Equal(t, "\n"+f.schema+"/account/42\n", get[string](t, f, tx, "SELECT current_setting('fencepost.admitted')"))
	require.Equal(t, int64(5), get[int64](t, f, tx, "SELECT number FROM fence.report_only('account/42', 4, 'a')"))
	require.Greater(t, get[int64](t, f, tx, "SELECT fence.mint('account/42', 'b')"), int64(5))
	require.Zero(t, get[int](t, f, tx, "SELECT fence.evict('account/42', 6)"))
	require.True(t, get[bool](t, f, tx, "SELECT granted FROM fence.acquire('account/42', 'c', '1 hour')"))
	require.True(t, get[bool](t, f, tx, "SELECT renewed FROM fence.renew('account/42', 'c', '1 hour')"))
	require.True(t, get[bool](t, f, tx, "SELECT fence.release('account/42', 'c')"))
	require.Equal(t, get[int64](t, f, tx, "SELECT hashtextextended($1 || '/account/42', 9651)", f.schema),
		get[int64](t, f, tx, "SELECT fence.lock_key('account/42')"))
	require.NoError(t, tx.Rollback(ctx))
}

func TestSchemasThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]string{
		"  ":                    "must not be blank",
		strings.Repeat("x", 64): "must be at most 63 bytes, or PostgreSQL would cut it",
		"x\x00":                 "must not contain control characters",
		"x\n-- +goose Down":     "must not contain control characters",
		"x\xff":                 "must be UTF-8",
		"a/b":                   "must not contain a slash",
	} {
		_, err := migrations.Set{Schema: name}.SQL()
		require.ErrorContains(t, err, "migrations: schema ")
		require.ErrorContains(t, err, rule)
	}
}

// A COMMIT that fails with SQLITE_BUSY leaves its transaction open. The next attempt on
// that connection would see its own uncommitted work.
func TestUpOfSQLiteBesideAReader(t *testing.T) {
	t.Parallel()
	set := onSQLite
	for name, work := range map[string]func(migrations.Set, context.Context, *sql.DB) error{"Up": migrations.Set.Up, "Down": migrations.Set.Down} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, url := newSQLite(t)
			require.NoError(t, set.Up(t.Context(), db))
			if name == "Up" {
				require.NoError(t, set.Down(t.Context(), db))
			}
			other, err := sql.Open("sqlite", url)
			require.NoError(t, err)
			opened(t, other)
			reader, err := other.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			var n int
			require.NoError(t, reader.QueryRowContext(t.Context(), "SELECT count(*) FROM sqlite_master").Scan(&n))

			done := make(chan error, 1)
			go func() { done <- work(set, t.Context(), db) }()
			select {
			case err := <-done:
				require.Fail(t, "it did not wait for the reader", "%v", err)
			case <-time.After(300 * time.Millisecond): // several tries
			}
			require.NoError(t, reader.Rollback())
			require.NoError(t, <-done)
			status, err := set.Status(t.Context(), other)
			require.NoError(t, err)
			for _, m := range status {
				require.Equal(t, name == "Down", m.AppliedAt.IsZero(), m.File)
			}
		})
	}
}

// A program with its own goose migrations, and Go migrations in goose's global registry
// under one of our versions.
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
	for name, d := range dialects {
		db := d.open(t)
		ran = 0
		require.NoError(t, d.set.Up(t.Context(), db), name)
		require.Zero(t, ran, "the program's migration ran under our version table")

		provider, err := goose.NewProvider(d.goose, db, host)
		require.NoError(t, err)
		_, err = provider.Up(t.Context())
		require.NoError(t, err, name)
		require.Equal(t, 1, ran)

		require.NoError(t, d.set.Up(t.Context(), db))
		require.Equal(t, 1, ran)
		require.Equal(t, 2, one[int](t, db, "SELECT max(version_id) FROM goose_db_version"))
		require.Equal(t, applied(t, d.set), one[int](t, db, "SELECT count(*) FROM "+d.versions))
		status, err := d.set.Status(t.Context(), db)
		require.NoError(t, err)
		require.Len(t, status, newest(t, d.set), "the program's migration is none of ours")
		require.NoError(t, d.set.Check(t.Context(), db))

		require.NoError(t, d.set.Down(t.Context(), db))
		require.Zero(t, back, "the program's migration was taken back under our version table")
		require.Equal(t, 2, one[int](t, db, "SELECT max(version_id) FROM goose_db_version"))
		require.Zero(t, one[int](t, db, "SELECT count(*) FROM host_two"))
	}
}

// The example of FS's documentation, beside the program's own goose.
func TestFSWithAVersionTableOfItsOwn(t *testing.T) {
	t.Cleanup(goose.ResetGlobalMigrations)
	goose.AddNamedMigrationContext("00002_host.go", func(context.Context, *sql.Tx) error { return nil }, nil)
	db := newDatabase(t)
	for range 2 {
		require.NoError(t, upgrade(t.Context(), db))
		require.NoError(t, migrations.Set{}.Check(t.Context(), db))
	}
	require.Equal(t, applied(t, migrations.Set{}), one[int](t, db, "SELECT count(*) FROM fencepost_versions"))
	require.Zero(t, one[int](t, db, "SELECT count(*) FROM pg_class WHERE relname = 'goose_db_version'"))

	files, err := migrations.Set{}.FS()
	require.NoError(t, err)
	_, err = goose.NewProvider(goose.DialectPostgres, newDatabase(t), files)
	require.ErrorContains(t, err, "00002", "the twin: the program's migration is taken for one of ours")
}

// A program that uses goose's package-level functions and global registry.
func TestTheProgramsGlobalGoose(t *testing.T) {
	files, err := migrations.Set{}.FS()
	require.NoError(t, err)
	goose.SetBaseFS(files)
	goose.SetTableName("host_versions")
	goose.SetLogger(goose.NopLogger())
	t.Cleanup(func() {
		goose.SetBaseFS(nil)
		goose.SetTableName(goose.DefaultTablename)
	})
	require.NoError(t, goose.SetDialect("postgres"))
	db := newDatabase(t)
	require.NoError(t, goose.UpContext(t.Context(), db, "."))
	require.NoError(t, migrations.Set{}.Check(t.Context(), db))
	require.ErrorIs(t, migrations.Set{}.Up(t.Context(), db), migrations.ErrUnversioned)
	require.NoError(t, goose.DownToContext(t.Context(), db, ".", 0))
	require.Error(t, migrations.Set{}.Check(t.Context(), db))
}

// A program that runs goose itself takes Set.FS.
func TestGooseGoesUpAndDown(t *testing.T) {
	t.Parallel()
	goes := func(t *testing.T, d dialect, db *sql.DB) {
		files, err := d.set.FS()
		require.NoError(t, err)
		provider, err := goose.NewProvider(d.goose, db, files, goose.WithDisableGlobalRegistry(true))
		require.NoError(t, err)
		_, err = provider.GetDBVersion(t.Context()) // makes goose's table
		require.NoError(t, err)
		before := one[int](t, db, d.things)
		for range 2 {
			_, err = provider.Up(t.Context())
			require.NoError(t, err)
			require.Greater(t, one[int](t, db, d.things), before)
			require.NoError(t, d.set.Check(t.Context(), db))
			require.ErrorIs(t, d.set.Up(t.Context(), db), migrations.ErrUnversioned)
			_, err = provider.DownTo(t.Context(), 0)
			require.NoError(t, err)
			require.Equal(t, before, one[int](t, db, d.things), "Down left something behind")
		}
	}
	onEach(t, goes)
	t.Run("in another schema", func(t *testing.T) {
		t.Parallel()
		d := dialects["on PostgreSQL"]
		d.set.Schema = "other"
		goes(t, d, d.open(t))
	})
}
