package migrations_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/migrations"
)

func TestCheckOfTables(t *testing.T) {
	t.Parallel()
	sqlite, _ := newSQLite(t)
	mysql, _ := newMySQL(t)
	for name, c := range map[string]struct {
		set migrations.Set
		db  *sql.DB
	}{
		"on SQLite":  {migrations.Set{Dialect: migrations.SQLite}, sqlite},
		"on MariaDB": {onMySQL, mysql},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, exec := t.Context(), func(text string) {
				t.Helper()
				_, err := c.db.ExecContext(t.Context(), text)
				require.NoError(t, err)
			}
			require.ErrorContains(t, c.set.Check(ctx, c.db), "the database is at version 0, and this program needs ")
			require.NoError(t, c.set.Up(ctx, c.db))
			require.NoError(t, c.set.Check(ctx, c.db))
			exec("INSERT INTO fencepost_migrations (version_id, is_applied) VALUES (99, 1)")
			require.NoError(t, c.set.Check(ctx, c.db), "old programs run beside new ones")
			for _, table := range []string{"fencepost_marks", "fencepost_floor"} {
				exec("ALTER TABLE " + table + " RENAME TO gone")
				require.ErrorContains(t, c.set.Check(ctx, c.db), "migrations: table "+table+" is not there: restore it from a backup")
				exec("ALTER TABLE gone RENAME TO " + table)
			}
			require.NoError(t, c.set.Check(ctx, c.db))
			exec("DELETE FROM fencepost_migrations WHERE version_id = 1")
			require.ErrorContains(t, c.set.Check(ctx, c.db), "the database is at version 0, and this program needs ")
		})
	}
}
