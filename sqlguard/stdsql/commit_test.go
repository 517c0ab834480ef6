package stdsql_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// listening is a pool whose COMMIT calls applied once the database has applied
// it, and then answers with the end of BeginTx's context, if that has ended.
// Drivers may listen to it for as long as the transaction lasts:
// modernc.org/sqlite v1.61.1 ends its wait for a lock by it, pgx/stdlib its wait
// for the server.
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
			"by a caller who leaves":   context.Canceled,
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
		require.ErrorIs(t, tx.Commit(), context.Canceled, "the twin must hear of the cancellation and not of its own success")
		require.Equal(t, before+10, balance(t, db), "the twin must have been applied")
	})
}

func TestLeavingBeforeTheCommit(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		ctx, leave := context.WithCancel(holding(t, 33, "a"))
		err := db.update(ctx, func(tx *sql.Tx) error {
			defer leave()
			return add(ctx, 10)(tx)
		})
		require.ErrorIs(t, err, context.Canceled, "a caller who has left gets a certain answer")
		require.NotErrorIs(t, err, guard.ErrUnknown)
		require.Equal(t, 100, balance(t, db))

		losing, lose := context.WithCancelCause(holding(t, 33, "a"))
		require.NoError(t, db.update(losing, func(tx *sql.Tx) error {
			defer lose(&token.LostError{Token: tok(33, "a")})
			return add(losing, 10)(tx)
		}), "the loss of the lease decides nothing")
		require.Equal(t, 110, balance(t, db))

		require.ErrorIs(t, db.update(ctx, add(ctx, 10)), context.Canceled, "nothing is begun for who has left already")
		require.ErrorIs(t, db.guard().Admit(ctx, tok(33, "a")), context.Canceled)
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
