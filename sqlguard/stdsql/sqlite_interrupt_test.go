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
)

// running are statements that call back as soon as they run: to interrupt one
// a moment sooner does nothing, and it would run for ever.
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
		t.Run("fn that goes on is found out", func(t *testing.T) {
			t.Parallel()
			db := newSQLite(t)
			ctx := holding(t, 33, "a")
			err := db.update(ctx, func(tx *sql.Tx) error {
				_ = interrupted(ctx, tx)
				return errors.Join(add(ctx, 10)(tx), end)
			})
			require.ErrorIs(t, err, guard.ErrUnknown)
			require.ErrorContains(t, err, "the transaction ended inside fn, and fn went on")
			require.Equal(t, 110, balance(t, db), "SQLite has committed it by itself")
			require.Zero(t, db.mark(t, account))
		})
	}
}

// Before v1.40.1 modernc.org/sqlite forgot such a query: it kept its lock on the
// file, and nothing could be rolled back, nor the connection closed.
func TestAnInterruptedQueryLeavesNothingOpen(t *testing.T) {
	t.Parallel()
	for name, journal := range map[string]string{"with a write-ahead log": wal, "without one": rollback} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := newFile(t, journal)
			db, elsewhere := onSQLite(t, file, patient), onSQLite(t, file, hasty)
			ctx, leave := context.WithCancel(holding(t, 33, "a"))
			id := running.add(func() {
				leave()
				time.Sleep(100 * time.Millisecond) // for the driver to hear of it
			})
			err := db.update(ctx, func(tx *sql.Tx) error {
				return tx.QueryRowContext(ctx, "SELECT test_running(?) FROM accounts", id).Scan(new(int))
			})
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, guard.ErrUnknown)
			require.NoError(t, write(t.Context(), elsewhere, 110), "nobody may be in the way")
		})
	}
}
