package stdsql_test

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

// hazard G9
func TestMarksOutliveTheData(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		zombie, successor := holding(t, 33, "a"), holding(t, 34, "b")

		run(t, db, "CREATE TABLE twin (id INTEGER PRIMARY KEY, balance INTEGER, number INTEGER)")
		fenced := func(balance, number int) {
			result, err := db.ExecContext(t.Context(), fmt.Sprintf("UPDATE twin SET balance = %d, number = %d WHERE number <= %[2]d", balance, number))
			require.NoError(t, err)
			if rows, _ := result.RowsAffected(); rows == 0 {
				run(t, db, fmt.Sprintf("INSERT INTO twin VALUES (42, %d, %d)", balance, number))
			}
		}
		fenced(100, 34)
		run(t, db, "DELETE FROM twin")
		fenced(50, 33)
		require.Equal(t, 33, one[int](t, db, "SELECT number FROM twin"), "the twin must take the stale write, since its mark went with the row")

		require.NoError(t, db.update(successor, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(successor, "DELETE FROM accounts")
			return err
		}))
		require.ErrorIs(t, db.update(zombie, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(zombie, "INSERT INTO accounts VALUES (42, 50)")
			return err
		}), guard.ErrStale)
	})
}
