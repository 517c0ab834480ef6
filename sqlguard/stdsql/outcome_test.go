package stdsql_test

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

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
			require.ErrorContains(t, err, "fn has ended the transaction itself")
			require.Equal(t, end != nil, errors.Is(err, afterwards))
		}
		require.Equal(t, 120, balance(t, db))
	})
}

// What another guarded write came to inside of fn is what this one came to.
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
