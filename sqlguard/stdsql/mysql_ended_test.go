package stdsql_test

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

// hazard G24
func TestMySQLAStatementThatCommitsByItself(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{
		"CREATE TABLE made (x INTEGER)", "TRUNCATE ledger", "ALTER TABLE ledger ADD COLUMN x INTEGER", "LOCK TABLES accounts WRITE", "BEGIN", "COMMIT",
	} {
		t.Run(statement, func(t *testing.T) {
			t.Parallel()
			db := newMySQL(t)
			db.claim(t, tok(33, "a"))
			zombie, successor := holding(t, 33, "a"), holding(t, 34, "b")
			for _, end := range []error{nil, errors.New("insufficient funds")} {
				err := db.update(zombie, func(tx *sql.Tx) error {
					require.NoError(t, write(zombie, tx, 50))
					run(t, tx, statement)
					return end
				})
				require.ErrorIs(t, err, guard.ErrUnknown)
				require.ErrorContains(t, err, "the transaction ended inside fn, and fn went on")
				require.Equal(t, 50, balance(t, db), "it was committed by then")
				run(t, db, "DROP TABLE IF EXISTS made")
				run(t, db, "ALTER TABLE ledger DROP COLUMN IF EXISTS x")
			}
			require.NoError(t, db.update(successor, add(successor, 10)), "nothing is left open, or locked, in the pool")
		})
	}
	t.Run("the twin does not find out", func(t *testing.T) {
		t.Parallel()
		db := newMySQL(t)
		db.claim(t, tok(33, "a"))
		zombie, successor := holding(t, 33, "a"), holding(t, 34, "b")
		require.NoError(t, inTx(t, db, func(tx *sql.Tx) error {
			require.NoError(t, db.guard().Join(zombie, tx, account))
			run(t, tx, "CREATE TABLE made (x INTEGER)")
			require.NoError(t, db.update(successor, add(successor, 10)))
			return write(zombie, tx, 0)
		}))
		require.Equal(t, 0, balance(t, db), "the twin must overwrite its successor")
	})
}

// hazard G24
func TestMySQLADeadlockEndsTheTransaction(t *testing.T) {
	t.Parallel()
	db := newMySQL(t)
	run(t, db, "INSERT INTO accounts VALUES (43, 100), (44, 100)")
	run(t, db, "INSERT INTO ledger (number) SELECT seq FROM seq_1_to_100")
	ctx := holding(t, 33, "a")
	db.claim(t, tok(33, "a"))
	// deadlocked has the transaction lose, since the other has written more.
	deadlocked := func(t *testing.T, tx *sql.Tx) error {
		other, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		defer other.Rollback()
		run(t, other, "UPDATE ledger SET number = number + 1")
		run(t, other, "UPDATE accounts SET balance = 1 WHERE id = 44")
		run(t, tx, "UPDATE accounts SET balance = 1 WHERE id = 43")
		waiting := make(chan error, 1)
		go func() {
			_, err := other.ExecContext(t.Context(), "UPDATE accounts SET balance = 2 WHERE id = 43")
			waiting <- err
		}()
		waits := "SELECT count(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE '%balance = 2%' AND id <> CONNECTION_ID() AND time_ms > 50"
		for one[int](t, db, waits) == 0 {
		}
		_, err = tx.ExecContext(ctx, "UPDATE accounts SET balance = 1 WHERE id = 44")
		require.ErrorContains(t, err, "Error 1213")
		require.NoError(t, <-waiting)
		return err
	}
	err := db.update(ctx, func(tx *sql.Tx) error {
		require.NoError(t, write(ctx, tx, 0))
		return fmt.Errorf("withdraw: %w", deadlocked(t, tx))
	})
	require.ErrorIs(t, err, guard.ErrRetryable, "fn that returns is to be run again")
	require.Equal(t, 100, balance(t, db))

	for _, end := range []error{nil, errors.New("insufficient funds")} {
		err = db.update(ctx, func(tx *sql.Tx) error {
			_ = deadlocked(t, tx)
			return errors.Join(write(ctx, tx, 0), end)
		})
		require.ErrorIs(t, err, guard.ErrUnknown, "fn that goes on is found out")
		require.Equal(t, 0, balance(t, db), "MariaDB has committed it by itself")
		require.NoError(t, write(ctx, db, 100))
	}
}
