package stdsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// commitUnderAReader runs update, whose COMMIT has to wait for a reader, as it does
// without a write-ahead log. It calls waiting meanwhile, and returns after update.
func commitUnderAReader(t *testing.T, settings string, h hooks, update func(db *database) error, waiting func()) error {
	t.Helper()
	file := newFile(t, rollback)
	writer, reader := onSQLite(t, file, settings), onSQLite(t, file, longBusyTimeout)
	writer.DB = writer.hooked(t, &h)
	result := make(chan error, 1)
	require.NoError(t, inTx(t, reader, func(tx *sql.Tx) error {
		_, err := read(t.Context(), tx)
		require.NoError(t, err)
		go func() { result <- update(writer) }()
		// A connection that waits to commit blocks new readers.
		third := onSQLite(t, file, noBusyTimeout)
		require.Eventually(t, func() bool {
			_, err := read(t.Context(), third)
			return err != nil || len(result) > 0
		}, hang, time.Millisecond)
		waiting()
		return nil
	}))
	return <-result
}

// hazard G18
func TestACommitThatWaitsForAReaderIsNotCutOff(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{
		"by the loss of the lease": &token.LostError{Token: tok(33, "a")},
		"by a caller that cancels": context.Canceled,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, leave := context.WithCancelCause(holding(t, 33, "a"))
			var db *database
			require.NoError(t, commitUnderAReader(t, longBusyTimeout, hooks{}, func(writer *database) error {
				db = writer
				return writer.update(ctx, add(ctx, 10))
			}, func() { leave(cause) }))
			require.Equal(t, 110, balance(t, db))
		})
	}
}

func TestWhatCommitAnswers(t *testing.T) {
	t.Parallel()
	var (
		broken  = errors.New("disk I/O error")
		locked  = errors.New("database is locked") // the text of a driver without error codes
		foreign = errors.New("FOREIGN KEY constraint failed")
	)
	for _, c := range []struct {
		name    string
		commit  func(tx openTx) error
		outcome error // nil for an ordinary error
		balance int
	}{
		{"broken, and still open", func(openTx) error { return broken }, nil, 100},
		{"broken, and not open any more", func(tx openTx) error { return errors.Join(broken, tx.Rollback()) }, guard.ErrUnknown, 100},
		{"broken, after it was applied", func(tx openTx) error { return errors.Join(broken, tx.Commit()) }, guard.ErrUnknown, 110},
		{"no connection, after it was applied", func(tx openTx) error { return errors.Join(driver.ErrBadConn, tx.Commit()) }, guard.ErrUnknown, 110},
		{"busy", func(openTx) error { return locked }, guard.ErrRetryable, 100},
		{"busy, by a driver that rolls back itself", func(tx openTx) error { return errors.Join(locked, tx.Rollback()) }, guard.ErrRetryable, 100},
		{"a constraint, by a driver that rolls back itself", func(tx openTx) error { return errors.Join(foreign, tx.Rollback()) }, nil, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := &hooks{commit: c.commit}
			db := onSQLite(t, newFile(t, wal), longBusyTimeout)
			db.DB = db.hooked(t, h)
			db.SetMaxOpenConns(1)
			ctx := holding(t, 33, "a")

			err := db.update(ctx, add(ctx, 10))
			require.Error(t, err)
			for _, outcome := range []error{guard.ErrUnknown, guard.ErrRetryable} {
				require.Equal(t, c.outcome == outcome, errors.Is(err, outcome), "%v", err)
			}
			require.Equal(t, c.balance, balance(t, db))
			h.commit = nil
			require.NoError(t, db.update(ctx, add(ctx, 10)), "the pool must be fit for use")
			require.Equal(t, c.balance+10, balance(t, db))
		})
	}
}

func TestAConnectionThatCannotBeClearedIsThrownAway(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk I/O error")
	h := &hooks{
		exec: func(query string) error {
			if query == "ROLLBACK" {
				return broken
			}
			return nil
		},
		commit: func(openTx) error { return broken },
	}
	db := onSQLite(t, newFile(t, wal), longBusyTimeout)
	db.DB = db.hooked(t, h)
	db.SetMaxOpenConns(1)
	ctx := holding(t, 33, "a")
	err := db.update(ctx, add(ctx, 10))
	require.ErrorIs(t, err, guard.ErrUnknown)
	*h = hooks{}
	require.NoError(t, db.update(ctx, add(ctx, 10)))
	require.Equal(t, 110, balance(t, db))
}

// handsOn is a driver that only forwards COMMIT to SQLite. SQLite keeps the transaction
// open after SQLITE_BUSY. modernc.org/sqlite was such a driver before v1.46.1; newer
// versions roll back by themselves.
var handsOn = hooks{commit: func(tx openTx) error {
	_, err := tx.conn.ExecContext(context.Background(), "COMMIT", nil)
	return err
}}

func TestABusyCommitLeavesNothingOpen(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]hooks{
		"guarded": {},
		"guarded, with a driver that does not clean up": handsOn,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := holding(t, 33, "a")
			var db *database
			require.ErrorIs(t, commitUnderAReader(t, noBusyTimeout, h, func(writer *database) error {
				db = writer
				db.SetMaxOpenConns(1)
				return db.update(ctx, add(ctx, 10))
			}, func() {}), guard.ErrRetryable)
			require.Equal(t, 100, balance(t, db))
			require.NoError(t, db.update(ctx, add(ctx, 10)))
		})
	}
	t.Run("the twin's pool keeps a transaction open that no statement can end", func(t *testing.T) {
		t.Parallel()
		var db *database
		require.Error(t, commitUnderAReader(t, noBusyTimeout, handsOn, func(writer *database) error {
			db = writer
			db.SetMaxOpenConns(1)
			return inTx(t, db, func(tx *sql.Tx) error { return write(t.Context(), tx, 110) })
		}, func() {}))
		elsewhere := onSQLite(t, databaseFile(t, db), noBusyTimeout)
		require.ErrorContains(t, write(t.Context(), elsewhere, 0), "database is locked", "the twin must lock other writers out")
		_, err := db.BeginTx(t.Context(), nil)
		require.ErrorContains(t, err, "within a transaction")
	})
}

func TestADeferredConstraintIsAnOrdinaryError(t *testing.T) {
	t.Parallel()
	db := onSQLite(t, newFile(t, wal), longBusyTimeout+"&_pragma=foreign_keys(1)")
	run(t, db, "CREATE TABLE cards (account INTEGER REFERENCES accounts DEFERRABLE INITIALLY DEFERRED)")
	ctx := holding(t, 33, "a")
	err := db.update(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO cards VALUES (43)")
		return err
	})
	require.ErrorContains(t, err, "stdsql: commit: ")
	require.NotErrorIs(t, err, guard.ErrUnknown)
	require.Zero(t, db.mark(t, account))
}
