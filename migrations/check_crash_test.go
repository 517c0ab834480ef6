package migrations_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/migrations"
)

// Marks that a crash empties admit the stale again; Check tells before.
func TestCheckFindsMarksThatACrashForgets(t *testing.T) {
	t.Parallel()
	spare := testenv.SparePostgres(t)
	ctx, connect := t.Context(), func() *sql.DB {
		db, err := sql.Open("pgx", spare.URL())
		require.NoError(t, err)
		return opened(t, db)
	}
	db := connect()
	require.NoError(t, migrations.Up(ctx, db))
	crash := func(resource string) error {
		_, err := db.ExecContext(ctx, "SELECT fencepost.admit($1, 6, 'b')", resource)
		require.NoError(t, err)
		spare.Crash()
		db = connect()
		_, err = db.ExecContext(ctx, "SELECT fencepost.admit($1, 5, 'a')", resource)
		return err
	}
	require.NoError(t, migrations.Check(ctx, db))
	require.Equal(t, "ZF001", code(crash("account/42")))

	_, err := db.ExecContext(ctx, "ALTER TABLE fencepost.marks SET UNLOGGED")
	require.NoError(t, err)
	require.ErrorContains(t, migrations.Check(ctx, db), "table fencepost.marks is UNLOGGED")
	require.NoError(t, crash("account/43"), "the twin: the stale is admitted")
}
