package migrations_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/migrations"
)

// A COMMIT that finds the database busy leaves its transaction open, and the
// next try on that connection would see its own work as done.
func TestUpOfSQLiteBesideAReader(t *testing.T) {
	t.Parallel()
	set := migrations.Set{Dialect: migrations.SQLite}
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
