package simulations_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token/memtoken"
)

func runOverDatabaseSQL(t *testing.T, try scope) {
	for _, name := range []string{"PostgreSQL", "MariaDB", "SQLite"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fence := tills[name](t).fence
			subjects := map[string]simulations.Subject{"Update": updating(t, fence)}
			if fence.Dialect != stdsql.SQLite { // it has one writer at a time: the two would block each other
				subjects["Join"] = joining(t, fence)
			}
			for name, subject := range subjects {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					simulations.Run(t, try(subject))
				})
			}
		})
	}
}

func opened(t *testing.T, connector driver.Connector) *sql.DB {
	t.Helper()
	db := sql.OpenDB(connector)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// updating counts in Guard.Update.
func updating(t *testing.T, fence *stdsql.Guard) simulations.Subject {
	t.Helper()
	return counted(t, fence, "updated", func(ctx context.Context, add func(tx *sql.Tx) error) error {
		return fence.Update(ctx, resource+"/updated", add)
	})
}

// joining counts in a transaction that the caller begins.
func joining(t *testing.T, fence *stdsql.Guard) simulations.Subject {
	t.Helper()
	return counted(t, fence, "joined", func(ctx context.Context, add func(tx *sql.Tx) error) error {
		tx, err := fence.DB.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := fence.Join(ctx, tx, resource+"/joined"); err != nil {
			return err
		}
		if err := add(tx); err != nil {
			return err
		}
		return tx.Commit()
	})
}

func counted(t *testing.T, fence *stdsql.Guard, table string, do func(ctx context.Context, add func(tx *sql.Tx) error) error) simulations.Subject {
	t.Helper()
	for _, statement := range []string{"CREATE TABLE " + table + " (n int NOT NULL)", "INSERT INTO " + table + " VALUES (0)"} {
		_, err := fence.DB.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	return simulations.Subject{
		Issuer: new(memtoken.Issuer), Resource: resource + "/" + table, Claim: fence.Admit,
		Do: func(ctx context.Context) error {
			return do(ctx, func(tx *sql.Tx) error {
				var n int
				if err := tx.QueryRowContext(ctx, "SELECT n FROM "+table).Scan(&n); err != nil {
					return err
				}
				_, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET n = %d", table, n+1))
				return err
			})
		},
		Count: func(ctx context.Context) (n int, err error) {
			err = fence.DB.QueryRowContext(ctx, "SELECT n FROM "+table).Scan(&n)
			return n, err
		},
	}
}
