package stdsql_test

import (
	"database/sql"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
)

// hazard G11
func TestTwoUpdatesNeverDeadlock(t *testing.T) {
	t.Parallel()
	db := newSQLite(t)

	// The twins read before they write. Both wait for the other to end, or
	// would: SQLite sees it and sends one away at once, whatever its patience.
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
