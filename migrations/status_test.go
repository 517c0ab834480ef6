package migrations_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/migrations"
)

const mysqlThings = "SELECT count(*) FROM information_schema.tables WHERE table_schema = DATABASE()"

func TestStatus(t *testing.T) {
	t.Parallel()
	sqlite, _ := newSQLite(t)
	_, dsn := newMySQL(t)
	mysql, err := sql.Open("mysql", dsn+"?time_zone=%27%2B05:45%27")
	require.NoError(t, err)
	opened(t, mysql)
	for name, c := range map[string]struct {
		set         migrations.Set
		db          *sql.DB
		first, last string
		things      string
	}{
		// A zone of its own must not move the times.
		"on PostgreSQL": {migrations.Set{}, newDatabase(t, "TimeZone=Asia/Kathmandu"), "00001_marks.sql", "00016_version.sql", "SELECT count(*) FROM pg_class"},
		"on SQLite":     {migrations.Set{Dialect: migrations.SQLite}, sqlite, "00001_marks.sql", "00002_floor.sql", "SELECT count(*) FROM sqlite_master"},
		"on MariaDB":    {onMySQL, mysql, "00001_marks.sql", "00001_marks.sql", mysqlThings},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := func() []migrations.Migration {
				t.Helper()
				status, err := c.set.Status(t.Context(), c.db)
				require.NoError(t, err)
				require.Len(t, status, applied(t, c.set)-1)
				return status
			}
			things := one[int](t, c.db, c.things)
			none := status()
			require.Equal(t, migrations.Migration{Version: 1, File: c.first}, none[0])
			require.Equal(t, c.last, none[len(none)-1].File)
			require.EqualValues(t, newest(t, c.set), none[len(none)-1].Version)
			require.Equal(t, things, one[int](t, c.db, c.things), "Status made something")

			start := time.Now().Add(-time.Second) // the column's own resolution
			require.NoError(t, c.set.Up(t.Context(), c.db))
			for i, m := range status() {
				require.Equal(t, none[i].File, m.File)
				require.WithinRange(t, m.AppliedAt, start, time.Now())
			}
			require.NoError(t, c.set.Down(t.Context(), c.db))
			require.Equal(t, none, status())
		})
	}
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
	require.ErrorContains(t, set.Down(ctx, db), "migrations: postgres: the database is at version 99, and this program knows 16: use the newer one")
	require.Equal(t, before, catalog(t, f), "Down began what it cannot end")
}

// Tables that somebody's own goose or a script has made are not ours to change.
func TestUnversioned(t *testing.T) {
	t.Parallel()
	sqlite, _ := newSQLite(t)
	for name, c := range map[string]struct {
		set    migrations.Set
		db     *sql.DB
		things string
	}{
		"on PostgreSQL": {migrations.Set{}, newDatabase(t), "SELECT count(*) FROM pg_class"},
		"on SQLite":     {migrations.Set{Dialect: migrations.SQLite}, sqlite, "SELECT count(*) FROM sqlite_master"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script, err := c.set.SQL()
			require.NoError(t, err)
			_, err = c.db.ExecContext(t.Context(), script)
			require.NoError(t, err)
			before := one[int](t, c.db, c.things)
			_, err = c.set.Status(t.Context(), c.db)
			require.ErrorIs(t, err, migrations.ErrUnversioned)
			require.ErrorIs(t, c.set.Up(t.Context(), c.db), migrations.ErrUnversioned)
			require.ErrorIs(t, c.set.Down(t.Context(), c.db), migrations.ErrUnversioned)
			require.NoError(t, c.set.Check(t.Context(), c.db))
			require.Equal(t, before, one[int](t, c.db, c.things))
		})
	}
}
