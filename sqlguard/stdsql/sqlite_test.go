package stdsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

func TestABusyDatabaseIsRetryable(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]string{
		"at the admission": noBusyTimeout + "&" + wal,
		"at BEGIN":         noBusyTimeout + "&_txlock=immediate&" + wal,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := newFile(t, wal)
			db, g := onSQLite(t, file, longBusyTimeout), onSQLite(t, file, settings).guard()
			ctx := holding(t, 33, "a")
			attempt := map[string]func() error{
				"Update": func() error { return g.Update(ctx, account, add(ctx, 10)) },
				"Admit":  func() error { return g.Admit(ctx, tok(33, "a")) },
			}
			for name, run := range attempt {
				require.NoError(t, inTx(t, db, func(tx *sql.Tx) error {
					_, err := tx.ExecContext(ctx, "INSERT INTO ledger (number) VALUES (1)")
					require.NoError(t, err)
					err = run()
					require.ErrorIs(t, err, guard.ErrRetryable, name)
					require.False(t, guard.IsRefusal(err))
					return nil
				}))
				require.NoError(t, run(), "run again, it goes through")
			}
			require.Equal(t, 110, balance(t, db))
		})
	}
}

func TestWhatFnFindsBusyIsRetryable(t *testing.T) {
	t.Parallel()
	db := newSQLite(t)
	elsewhere := onSQLite(t, newFile(t, wal), noBusyTimeout)
	ctx := holding(t, 33, "a")
	require.NoError(t, inTx(t, elsewhere, func(tx *sql.Tx) error {
		require.NoError(t, write(ctx, tx, 0))
		err := db.update(ctx, func(*sql.Tx) error { return write(ctx, elsewhere, 1) })
		require.ErrorIs(t, err, guard.ErrRetryable)
		return nil
	}))
}

// hazard G11
func TestTwoUpdatesNeverDeadlock(t *testing.T) {
	t.Parallel()
	db := newSQLite(t)

	// The twins read before they write, and then wait for each other. SQLite detects that
	// and fails one at once, whatever its busy_timeout.
	var one, other error
	require.NoError(t, inTx(t, db, func(tx *sql.Tx) error {
		other = inTx(t, db, func(late *sql.Tx) error {
			_, err := read(t.Context(), tx)
			require.NoError(t, err)
			_, err = read(t.Context(), late)
			require.NoError(t, err)
			one = write(t.Context(), tx, 0)
			return write(t.Context(), late, 0)
		})
		return nil
	}))
	require.NoError(t, one)
	require.ErrorContains(t, other, "database is locked", "the twin must be sent away")

	const writes = 100
	g := db.guard()
	ctx := token.NewContext(holding(t, 33, "a"), token.Token{Resource: "account/43", Number: 33, Holder: "a"})
	run(t, db, "UPDATE accounts SET balance = 0")
	var both sync.WaitGroup
	for _, resources := range [][]string{{account, "account/43"}, {"account/43", account}} {
		both.Go(func() {
			for range writes {
				if err := g.UpdateAll(ctx, resources, add(ctx, 1)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	both.Wait()
	require.Equal(t, 2*writes, balance(t, db))
}

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
	require.ErrorIs(t, err, guard.ErrStale, "run again, it gets the reason")
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

// running are statements that call back when they run: an earlier interrupt has no
// effect, and the statement would run without end.
var running callbacks

type callbacks struct {
	mu  sync.Mutex
	all []func()
}

func (c *callbacks) add(fn func()) (id int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, fn)
	return len(c.all) - 1
}

func (c *callbacks) call(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[id]()
}

func init() {
	sqlite.MustRegisterScalarFunction("test_running", 1, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
		running.call(args[0].(int64))
		return int64(0), nil
	})
}

// hazard G24
func TestAnInterruptedWriteEndsTheTransaction(t *testing.T) {
	t.Parallel()
	interrupted := func(ctx context.Context, tx *sql.Tx) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		id := running.add(cancel)
		_, err := tx.ExecContext(ctx, `WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)
			INSERT INTO ledger (number) SELECT test_running(?) FROM c`, id)
		require.ErrorIs(t, err, context.Canceled)
		return err
	}
	t.Run("fn that returns is rolled back", func(t *testing.T) {
		t.Parallel()
		db := newSQLite(t)
		ctx := holding(t, 33, "a")
		err := db.update(ctx, func(tx *sql.Tx) error {
			return errors.Join(add(ctx, 10)(tx), interrupted(ctx, tx))
		})
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, guard.ErrUnknown)
		require.Equal(t, 100, balance(t, db))
	})
	for _, end := range []error{nil, errors.New("insufficient funds")} {
		t.Run("an fn that continues is detected", func(t *testing.T) {
			t.Parallel()
			db := newSQLite(t)
			ctx := holding(t, 33, "a")
			err := db.update(ctx, func(tx *sql.Tx) error {
				_ = interrupted(ctx, tx)
				return errors.Join(add(ctx, 10)(tx), end)
			})
			require.ErrorIs(t, err, guard.ErrUnknown)
			require.ErrorContains(t, err, "a statement in fn ended the transaction")
			require.Equal(t, 110, balance(t, db), "SQLite has committed it by itself")
			require.Zero(t, db.mark(t, account))
		})
	}
}

// Before v1.40.1 modernc.org/sqlite left such a query open: it kept its lock on the file,
// and neither a rollback nor closing the connection worked.
func TestAnInterruptedQueryLeavesNothingOpen(t *testing.T) {
	t.Parallel()
	for name, journal := range map[string]string{"with a write-ahead log": wal, "without one": rollback} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := newFile(t, journal)
			db, elsewhere := onSQLite(t, file, longBusyTimeout), onSQLite(t, file, noBusyTimeout)
			ctx, leave := context.WithCancel(holding(t, 33, "a"))
			id := running.add(func() {
				leave()
				time.Sleep(100 * time.Millisecond) // until the driver reacts
			})
			err := db.update(ctx, func(tx *sql.Tx) error {
				return tx.QueryRowContext(ctx, "SELECT test_running(?) FROM accounts", id).Scan(new(int))
			})
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, guard.ErrUnknown)
			require.NoError(t, write(t.Context(), elsewhere, 110), "no lock may be left")
		})
	}
}
