package stdsql_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

func TestMySQLASuccessorWaitsAsLongAsTheServerLetsIt(t *testing.T) {
	t.Parallel()
	db := newMySQL(t)
	db.claim(t, tok(33, "a"))
	older, newer := holding(t, 33, "a"), holding(t, 34, "b")
	impatient := db.over(connect(t, "mysql", db.dsn+"?innodb_lock_wait_timeout=1"))
	require.NoError(t, db.update(older, func(tx *sql.Tx) error {
		for _, err := range []error{impatient.Admit(newer, tok(34, "b")), impatient.Update(newer, account, add(newer, 10))} {
			require.ErrorIs(t, err, guard.ErrRetryable)
			require.ErrorContains(t, err, "Error 1205")
			require.False(t, guard.Refusal(err))
		}
		return add(older, 10)(tx)
	}))
	require.NoError(t, impatient.Update(newer, account, add(newer, 10)), "run again, it goes through")
	require.Equal(t, 120, balance(t, db))
}

// A zombie that tries again and again is in nobody's way.
func TestMySQLTheStaleDoNotWait(t *testing.T) {
	t.Parallel()
	db := newMySQL(t)
	db.claim(t, tok(34, "b"))
	zombie, newer := holding(t, 33, "a"), holding(t, 34, "b")
	require.NoError(t, db.update(newer, func(tx *sql.Tx) error {
		require.ErrorIs(t, db.guard().Admit(t.Context(), tok(33, "a")), guard.ErrStale)
		require.ErrorIs(t, db.update(zombie, add(zombie, 10)), guard.ErrStale)
		return add(newer, 10)(tx)
	}))
	require.Equal(t, 110, balance(t, db))
}

// innodb_rollback_on_timeout is off by default: the statement is rolled back,
// and the transaction goes on.
func TestMySQLALockWaitTimeoutRollsBackTheStatement(t *testing.T) {
	t.Parallel()
	db := newMySQL(t)
	run(t, db, "INSERT INTO accounts VALUES (43, 100)")
	g, ctx := db.over(connect(t, "mysql", db.dsn+"?innodb_lock_wait_timeout=1")), holding(t, 33, "a")
	other, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer other.Rollback()
	run(t, other, "UPDATE accounts SET balance = 1 WHERE id = 43")
	spend := func(tx *sql.Tx) error {
		require.NoError(t, add(ctx, -10)(tx))
		_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = 2 WHERE id = 43")
		require.ErrorContains(t, err, "Error 1205")
		return err
	}
	require.ErrorIs(t, g.Update(ctx, account, spend), guard.ErrRetryable)
	require.Equal(t, 100, balance(t, db), "all of it is rolled back")
	require.NoError(t, g.Update(ctx, account, func(tx *sql.Tx) error { _ = spend(tx); return nil }), "fn may go on")
	require.Equal(t, 90, balance(t, db))
}
