package stdsql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
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
	for number, want := range map[uint16]error{
		1213: guard.ErrRetryable, 1205: guard.ErrRetryable, 1020: guard.ErrRetryable,
		8002: guard.ErrRetryable, 8005: guard.ErrRetryable, 8022: guard.ErrRetryable, 9007: guard.ErrRetryable,
		4031: guard.ErrEvicted, 3169: guard.ErrEvicted, 1927: guard.ErrEvicted,
	} {
		own := &mysql.MySQLError{Number: number}
		err := db.update(ctx, func(*sql.Tx) error { return errors.Join(context.Canceled, fmt.Errorf("withdraw: %w", own)) })
		require.ErrorIs(t, err, want, "%d", number)
		require.ErrorIs(t, err, own)
	}
}

// hazard M4
func TestMySQLWhatCommitAnswers(t *testing.T) {
	t.Parallel()
	db := newMySQL(t)
	db.claim(t, tok(33, "a"))
	ctx := holding(t, 33, "a")
	broken := errors.New("connection reset by peer")
	certified := &mysql.MySQLError{Number: 1213, Message: "as Galera answers a COMMIT that lost"}
	// TiDB 8.4 under tidb_txn_mode = 'optimistic'.
	conflict := &mysql.MySQLError{Number: 9007, Message: "Write conflict, txnStartTS=462438463160156161, … [try again later]"}
	retryable := &mysql.MySQLError{Number: 8022, Message: "Error: KV error safe to retry … [try again later]"}
	for _, c := range []struct {
		name    string
		commit  func(tx openTx) error
		outcome error
		balance int
	}{
		{"a write conflict of TiDB's", func(tx openTx) error { return errors.Join(tx.Rollback(), conflict) }, guard.ErrRetryable, 100},
		{"a retryable error of TiDB's", func(tx openTx) error { return errors.Join(tx.Rollback(), retryable) }, guard.ErrRetryable, 100},
		// M4's twin: the same rollback, reported by an error without such a number.
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

// hazards G24, G42
func TestMySQLAStatementThatCommitsByItself(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{
		"CREATE TABLE made (x INTEGER)", "TRUNCATE ledger", "ALTER TABLE ledger ADD COLUMN x INTEGER", "LOCK TABLES accounts WRITE", "BEGIN", "COMMIT", "COMMIT AND CHAIN",
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
				require.ErrorContains(t, err, "a statement in fn ended the transaction")
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
	// deadlocked makes the transaction the victim: the other one has written more.
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
		db.eventually(t, waits, func(sessions int) bool { return sessions > 0 })
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

// The bound is in whole seconds. Each wait has its own database, so that they run in
// parallel.
//
// hazard G8
func TestMySQLAnIdleHolderIsEnded(t *testing.T) {
	t.Parallel()
	older, newer := holding(t, 33, "a"), holding(t, 34, "b")
	var all sync.WaitGroup
	defer all.Wait()
	// asleep repeats if the session was ended before fn, because the machine was slow.
	asleep := func(g *stdsql.Guard, fn func(tx *sql.Tx, session int) error) (err error) {
		for ran := false; !ran && (err == nil || errors.Is(err, guard.ErrEvicted)); {
			err = g.Update(older, account, func(tx *sql.Tx) error {
				session := 0
				if err := tx.QueryRowContext(older, "SELECT CONNECTION_ID()").Scan(&session); err != nil {
					return err
				}
				ran = true
				return fn(tx, session)
			})
		}
		return err
	}
	atOnce := func(holds func(db *database, bounded *stdsql.Guard)) {
		db := newMySQL(t)
		db.claim(t, tok(33, "a"))
		g := db.guard()
		g.IdleTimeout = time.Nanosecond // rounded up
		all.Go(func() { holds(db, g) })
	}
	for name, late := range map[string]func(tx *sql.Tx) error{
		"at a statement": func(tx *sql.Tx) error { return write(older, tx, 0) }, "before COMMIT was sent": func(*sql.Tx) error { return nil },
	} {
		atOnce(func(db *database, g *stdsql.Guard) {
			err := asleep(g, func(tx *sql.Tx, session int) error {
				_ = write(older, tx, 0) // the session may have been ended
				there := fmt.Sprint("SELECT count(*) FROM information_schema.processlist WHERE id = ", session)
				assert.Eventually(t, func() bool { return one[int](t, db, there) == 0 }, hang, 10*time.Millisecond)
				return late(tx)
			})
			assert.ErrorIs(t, err, guard.ErrEvicted, name)
			assert.NotErrorIs(t, err, guard.ErrUnknown, name)
			assert.Equal(t, 100, balance(t, db), name)
		})
	}
	atOnce(func(db *database, g *stdsql.Guard) {
		err := asleep(g, func(tx *sql.Tx, _ int) error {
			_ = write(older, tx, 0)
			assert.NoError(t, db.guard().Update(newer, account, add(newer, 10)), "the successor waits until the sleeper is ended")
			return write(older, tx, 0)
		})
		assert.ErrorIs(t, err, guard.ErrEvicted)
		assert.Equal(t, 110, balance(t, db))
	})
	atOnce(func(db *database, unbounded *stdsql.Guard) {
		unbounded.IdleTimeout = -1
		impatient := db.over(connect(t, "mysql", db.setting(t, "innodb_lock_wait_timeout", "2")))
		assert.NoError(t, unbounded.Update(older, account, func(*sql.Tx) error {
			assert.ErrorIs(t, impatient.Admit(t.Context(), tok(35, "c")), guard.ErrRetryable, "the twin must keep its successor waiting")
			return nil
		}))
	})
}
