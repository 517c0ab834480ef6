package stdsql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

func TestMySQLAnErrorByItsNumber(t *testing.T) {
	t.Parallel()
	db := newMySQL(t)
	ctx := holding(t, 33, "a")
	run(t, db, "CREATE TABLE names (name VARCHAR(200) PRIMARY KEY)")
	run(t, db, "INSERT INTO names VALUES ('Error 1213')")
	err := db.update(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO names VALUES ('Error 1213')")
		return err
	})
	require.ErrorContains(t, err, "Error 1213")
	require.NotErrorIs(t, err, guard.ErrRetryable, "a text is not a number")
	for number, want := range map[uint16]error{1213: guard.ErrRetryable, 1205: guard.ErrRetryable, 1020: guard.ErrRetryable, 4031: guard.ErrEvicted, 3169: guard.ErrEvicted, 1927: guard.ErrEvicted} {
		own := &mysql.MySQLError{Number: number}
		err := db.update(ctx, func(*sql.Tx) error { return errors.Join(context.Canceled, fmt.Errorf("withdraw: %w", own)) })
		require.ErrorIs(t, err, want, "%d", number)
		require.ErrorIs(t, err, own)
	}
}

func TestMySQLWhatCommitAnswers(t *testing.T) {
	t.Parallel()
	db := newMySQL(t)
	db.claim(t, tok(33, "a"))
	ctx := holding(t, 33, "a")
	broken := errors.New("connection reset by peer")
	certified := &mysql.MySQLError{Number: 1213, Message: "as Galera answers a COMMIT that lost"}
	for _, c := range []struct {
		name    string
		commit  func(tx openTx) error
		outcome error
		balance int
	}{
		{"broken, and it was not applied", func(tx openTx) error { return errors.Join(tx.Rollback(), broken) }, guard.ErrUnknown, 100},
		{"rolled back", func(tx openTx) error { return errors.Join(tx.Rollback(), certified) }, guard.ErrRetryable, 100},
		{"broken, after it was applied", func(tx openTx) error { return errors.Join(tx.Commit(), broken) }, guard.ErrUnknown, 110},
	} {
		pool := db.hooked(t, &hooks{commit: c.commit})
		pool.SetMaxOpenConns(1)
		err := db.over(pool).Update(ctx, account, add(ctx, 10))
		require.ErrorIs(t, err, c.outcome, c.name)
		require.Equal(t, c.balance, balance(t, db), c.name)
		require.Equal(t, 28800, one[int](t, pool, "SELECT @@SESSION.wait_timeout"), "the pool must be fit for use")
	}
}
