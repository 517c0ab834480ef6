package stdsql_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

// commitUnderAReader runs update, whose COMMIT has to wait for a reader, as it
// does without a write-ahead log; waiting is called while it does. It returns
// once update has.
func commitUnderAReader(t *testing.T, settings string, h hooks, update func(db *sql.DB) error, waiting func()) error {
	t.Helper()
	file := newFile(t, rollback)
	writer, reader := connectHooked(t, dsn(file, settings), &h), connect(t, dsn(file, patient))
	result := make(chan error, 1)
	require.NoError(t, inTx(t, reader, func(tx *sql.Tx) error {
		_, err := read(t.Context(), tx)
		require.NoError(t, err)
		go func() { result <- update(writer) }()
		// Whoever waits to commit keeps new readers out.
		third := connect(t, dsn(file, hasty))
		require.Eventually(t, func() bool {
			_, err := read(t.Context(), third)
			return err != nil || len(result) > 0
		}, time.Minute, time.Millisecond)
		waiting()
		return nil
	}))
	return <-result
}

// connectListening connects through a driver whose COMMIT calls applied once
// SQLite has applied it, and then answers with the end of BeginTx's context, if
// that has ended. Drivers may listen to it for as long as the transaction
// lasts: modernc.org/sqlite v1.61.1 ends its wait for a lock by it, pgx/stdlib
// its wait for the server. And this is what every version of modernc.org/sqlite
// answers to a COMMIT that is sent by ExecContext.
func connectListening(t *testing.T, applied func()) *sql.DB {
	t.Helper()
	return connectHooked(t, dsn(newFile(t, wal), patient), &hooks{commit: func(tx openTx) error {
		if err := tx.Commit(); err != nil {
			return err
		}
		applied()
		return tx.ctx.Err()
	}})
}

// hazard G18
func TestACommitInFlightIsNotCutOff(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{
		"by the loss of the lease": &token.LostError{Token: tok(33, "a")},
		"by a caller who leaves":   context.Canceled,
	} {
		t.Run(name+", while it waits for a reader", func(t *testing.T) {
			t.Parallel()
			ctx, leave := context.WithCancelCause(holding(t, 33, "a"))
			var db *sql.DB
			require.NoError(t, commitUnderAReader(t, patient, hooks{}, func(writer *sql.DB) error {
				db = writer
				return stdsql.Update(ctx, writer, account, add(ctx, 10))
			}, func() { leave(cause) }))
			require.Equal(t, 110, balance(t, db))
		})
		t.Run(name+", between SQLite's answer and the driver's", func(t *testing.T) {
			t.Parallel()
			ctx, leave := context.WithCancelCause(holding(t, 33, "a"))
			db := connectListening(t, func() { leave(cause) })
			require.NoError(t, stdsql.Update(ctx, db, account, add(ctx, 10)))
			require.Equal(t, 110, balance(t, db))
		})
	}
	t.Run("the twin hears of the cancellation and not of its own success", func(t *testing.T) {
		t.Parallel()
		ctx, leave := context.WithCancel(t.Context())
		db := connectListening(t, leave)
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		require.NoError(t, add(ctx, 10)(tx))
		require.ErrorIs(t, tx.Commit(), context.Canceled)
		require.Equal(t, 110, balance(t, db), "the twin must have been applied")
	})
}

func TestLeavingBeforeTheCommit(t *testing.T) {
	t.Parallel()
	t.Run("a caller who has left gets a certain answer", func(t *testing.T) {
		t.Parallel()
		db := newDB(t)
		ctx, leave := context.WithCancel(holding(t, 33, "a"))
		err := stdsql.Update(ctx, db, account, func(tx *sql.Tx) error {
			defer leave()
			return add(ctx, 10)(tx)
		})
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, guard.ErrUnknown)
		require.Equal(t, 100, balance(t, db))
	})
	t.Run("the loss of the lease decides nothing", func(t *testing.T) {
		t.Parallel()
		db := newDB(t)
		ctx, lose := context.WithCancelCause(holding(t, 33, "a"))
		require.NoError(t, stdsql.Update(ctx, db, account, func(tx *sql.Tx) error {
			defer lose(&token.LostError{Token: tok(33, "a")})
			return add(ctx, 10)(tx)
		}))
		require.Equal(t, 110, balance(t, db))
	})
	t.Run("nothing is begun for who has left already", func(t *testing.T) {
		t.Parallel()
		ctx, leave := context.WithCancel(holding(t, 33, "a"))
		leave()
		require.ErrorIs(t, stdsql.Update(ctx, newDB(t), account, add(ctx, 10)), context.Canceled)
	})
}

func TestALostLeaseIsJoinedToTheError(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	ctx, lose := context.WithCancelCause(holding(t, 33, "a"))
	err := stdsql.Update(ctx, db, account, func(tx *sql.Tx) error {
		lose(&token.LostError{Token: tok(33, "a")})
		return write(ctx, tx, 0)
	})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, token.ErrLost)
	require.NotErrorIs(t, err, guard.ErrUnknown)

	require.NoError(t, (&stdsql.Guard{DB: db}).Admit(t.Context(), tok(34, "b")))
	err = stdsql.Update(ctx, db, account, add(ctx, 10))
	require.ErrorIs(t, err, token.ErrLost)
	require.Equal(t, 100, balance(t, db))
}
