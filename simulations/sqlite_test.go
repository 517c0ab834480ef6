package simulations_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/sqlpoint"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token/memtoken"
)

func TestRunOnSQLite(t *testing.T) {
	t.Parallel()
	db, err := sqlpoint.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "units.db")+"?_pragma=busy_timeout(1000)&_pragma=journal_mode(wal)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	require.NoError(t, migrations.Set{Dialect: migrations.SQLite}.Up(t.Context(), db))
	_, err = db.ExecContext(t.Context(), "CREATE TABLE units (n int NOT NULL); INSERT INTO units VALUES (0)")
	require.NoError(t, err)
	fence := &stdsql.Guard{DB: db, Dialect: stdsql.SQLite}
	simulations.Run(t, simulations.Subject{
		Issuer: new(memtoken.Issuer), Resource: resource, Claim: fence.Admit,
		Do: func(ctx context.Context) error {
			return fence.Update(ctx, resource, func(tx *sql.Tx) error {
				var n int
				if err := tx.QueryRowContext(ctx, "SELECT n FROM units").Scan(&n); err != nil {
					return err
				}
				_, err := tx.ExecContext(ctx, "UPDATE units SET n = ?", n+1)
				return err
			})
		},
		Count: func(ctx context.Context) (n int, err error) {
			err = db.QueryRowContext(ctx, "SELECT n FROM units").Scan(&n)
			return n, err
		},
	})
}
