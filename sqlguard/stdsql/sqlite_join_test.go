package stdsql_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

func TestSQLiteJoinAfterAReadThatWasOvertaken(t *testing.T) {
	t.Parallel()
	db := newSQLite(t)
	g := db.guard()
	late, successor := holding(t, 33, "a"), holding(t, 34, "b")
	err := inTx(t, db, func(tx *sql.Tx) error {
		_, err := read(late, tx)
		require.NoError(t, err)
		require.NoError(t, g.Update(successor, account, add(successor, 10)))
		return g.Join(late, tx, account)
	})
	require.ErrorIs(t, err, guard.ErrRetryable, "what it has read is old")
	err = inTx(t, db, func(tx *sql.Tx) error { return g.Join(late, tx, account) })
	require.ErrorIs(t, err, guard.ErrStale, "run again, it hears why")
}

// hazard G24
func TestSQLiteAnAdmissionEndsWithItsSavepoint(t *testing.T) {
	t.Parallel()
	db := newSQLite(t)
	g := db.guard()
	older, newer := holding(t, 33, "a"), holding(t, 34, "b")
	join := func(inside bool) {
		require.NoError(t, inTx(t, db, func(tx *sql.Tx) error {
			if !inside {
				require.NoError(t, g.Join(newer, tx, account))
			}
			_, err := tx.ExecContext(newer, "SAVEPOINT s")
			require.NoError(t, err)
			if inside {
				require.NoError(t, g.Join(newer, tx, account))
			}
			_, err = tx.ExecContext(newer, "ROLLBACK TO s")
			require.NoError(t, err)
			return write(newer, tx, 500)
		}))
	}
	join(true)
	require.NoError(t, g.Update(older, account, add(older, 1)), "the newer one wrote, and left no mark")
	join(false)
	require.ErrorIs(t, g.Update(older, account, add(older, 1)), guard.ErrStale)
	require.Equal(t, 500, balance(t, db))
}
