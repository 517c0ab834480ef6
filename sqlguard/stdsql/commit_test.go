package stdsql_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// listening returns a pool whose COMMIT calls applied after the database has applied it.
// If the context of BeginTx has ended, COMMIT then returns its error. Drivers may observe
// that context for the whole transaction: with it modernc.org/sqlite v1.61.1 ends its
// wait for a lock, and pgx/stdlib its wait for the server.
func (db *database) listening(t *testing.T, applied func()) *sql.DB {
	t.Helper()
	return db.hooked(t, &hooks{commit: func(tx openTx) error {
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
	onEach(t, func(t *testing.T, db *database) {
		db.claim(t, tok(33, "a"))
		for name, cause := range map[string]error{
			"by the loss of the lease": &token.LostError{Token: tok(33, "a")},
			"by a caller that cancels": context.Canceled,
		} {
			before := balance(t, db)
			ctx, leave := context.WithCancelCause(holding(t, 33, "a"))
			g := db.over(db.listening(t, func() { leave(cause) }))
			require.NoError(t, g.Update(ctx, account, add(ctx, 10)), name)
			require.Equal(t, before+10, balance(t, db), name)
		}
		before := balance(t, db)
		ctx, leave := context.WithCancel(t.Context())
		tx, err := db.listening(t, leave).BeginTx(ctx, nil)
		require.NoError(t, err)
		require.NoError(t, add(ctx, 10)(tx))
		require.ErrorIs(t, tx.Commit(), context.Canceled, "the twin must get the cancellation and not its own success")
		require.Equal(t, before+10, balance(t, db), "the twin must have been applied")
	})
}

// A server that does not reply to COMMIT blocks its caller for 30 s, if the driver
// observes the context of BeginTx.
func TestACommitThatIsNotAnswered(t *testing.T) {
	t.Parallel()
	file := newFile(t, wal)
	synctest.Test(t, func(t *testing.T) {
		db := onSQLite(t, file, wal)
		var waited time.Duration
		pool := db.hooked(t, &hooks{commit: func(tx openTx) error {
			start := time.Now()
			<-tx.ctx.Done()
			waited = time.Since(start)
			return errors.Join(tx.Rollback(), context.Cause(tx.ctx))
		}})
		ctx := holding(t, 33, "a")
		require.Error(t, db.over(pool).Update(ctx, account, add(ctx, 10)))
		require.Equal(t, 30*time.Second, waited)
		require.Equal(t, 100, balance(t, db))
		require.NoError(t, pool.Close())
		require.NoError(t, db.Close())
	})
}

func TestAClaimWhoseAnswerIsLostLeavesTheWriteUnsent(t *testing.T) {
	t.Parallel()
	for _, open := range []func(*testing.T) *database{newPostgres, newMySQL} { // on SQLite no claim comes first
		db := open(t)
		broken, commits := errors.New("connection reset by peer"), 0
		g := db.over(db.hooked(t, &hooks{commit: func(tx openTx) error {
			if commits++; commits == 1 {
				return errors.Join(tx.Commit(), broken)
			}
			return tx.Commit()
		}}))
		ctx := holding(t, 33, "a")
		err := g.Update(ctx, account, func(*sql.Tx) error { panic("fn ran") })
		require.ErrorIs(t, err, broken)
		require.NotErrorIs(t, err, guard.ErrUnknown, "nothing of the write was sent")
		require.Equal(t, guard.Mark{Number: 33, Holder: "a"}, db.mark(t, account))
		require.NoError(t, g.Update(ctx, account, add(ctx, 10)), "the claim that arrived is its own")
		require.Equal(t, 110, balance(t, db))
	}
}

func TestLeavingBeforeTheCommit(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		ctx, leave := context.WithCancel(holding(t, 33, "a"))
		err := db.update(ctx, func(tx *sql.Tx) error {
			defer leave()
			return add(ctx, 10)(tx)
		})
		require.ErrorIs(t, err, context.Canceled, "a caller that has cancelled gets a certain outcome")
		require.NotErrorIs(t, err, guard.ErrUnknown)
		require.Equal(t, 100, balance(t, db))

		losing, lose := context.WithCancelCause(holding(t, 33, "a"))
		require.NoError(t, db.update(losing, func(tx *sql.Tx) error {
			defer lose(&token.LostError{Token: tok(33, "a")})
			return add(losing, 10)(tx)
		}), "the loss of the lease decides nothing")
		require.Equal(t, 110, balance(t, db))

		require.ErrorIs(t, db.update(ctx, add(ctx, 10)), context.Canceled, "nothing is begun under an ended context")
		require.ErrorIs(t, db.guard().Admit(ctx, tok(33, "a")), context.Canceled)
		before := db.mark(t, account)
		_, err = db.guard().Mint(ctx, account, "a")
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, guard.ErrUnknown)
		require.Equal(t, before, db.mark(t, account))
		require.Equal(t, 110, balance(t, db))
	})
}

func TestALostLeaseIsJoinedToTheError(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		ctx, lose := context.WithCancelCause(holding(t, 33, "a"))
		err := db.update(ctx, func(tx *sql.Tx) error {
			lose(&token.LostError{Token: tok(33, "a")})
			return write(ctx, tx, 0)
		})
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, token.ErrLost)
		require.NotErrorIs(t, err, guard.ErrUnknown)

		db.claim(t, tok(34, "b"))
		err = db.update(ctx, add(ctx, 10))
		require.ErrorIs(t, err, guard.ErrStale)
		require.ErrorIs(t, err, token.ErrLost)
		require.Equal(t, 100, balance(t, db))
	})
}

func TestFnThatEndsTheTransaction(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		ctx := holding(t, 33, "a")
		afterwards := errors.New("could not publish")
		for _, end := range []error{nil, afterwards} {
			err := db.update(ctx, func(tx *sql.Tx) error {
				return errors.Join(add(ctx, 10)(tx), tx.Commit(), end)
			})
			require.ErrorIs(t, err, guard.ErrUnknown)
			require.ErrorContains(t, err, "fn ended the transaction")
			require.Equal(t, end != nil, errors.Is(err, afterwards))
		}
		require.Equal(t, 120, balance(t, db))
	})
}

// The outcome of a guarded write inside fn is the outcome of the outer one.
func TestFnThatFailsWithAnOutcome(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		ctx := holding(t, 33, "a")
		for _, outcome := range []error{guard.ErrRetryable, guard.ErrStale, guard.ErrUnknown, guard.ErrEvicted, guard.ErrClaimFirst} {
			err := db.update(ctx, func(tx *sql.Tx) error { return errors.Join(write(ctx, tx, 0), outcome) })
			require.ErrorIs(t, err, outcome)
			require.Equal(t, 100, balance(t, db))
		}
	})
}
