package stdsql_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

// onServers runs a test where writers can be side by side.
func onServers(t *testing.T, test func(t *testing.T, db *database)) {
	t.Helper()
	for name, open := range map[string]func(*testing.T) *database{"PostgreSQL": newPostgres, "MariaDB": newMySQL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// hazard G12
func TestWritersOfOneTokenAreSideBySide(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, db *database) {
		db.claim(t, tok(33, "a"))
		ctx := holding(t, 33, "a")
		insert := func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO ledger (number) VALUES (33)")
			return err
		}
		require.NoError(t, db.update(ctx, func(tx *sql.Tx) error {
			require.NoError(t, db.update(ctx, insert), "while the first is in")
			require.NoError(t, inTx(t, db, func(joined *sql.Tx) error {
				require.NoError(t, db.guard().Join(ctx, joined, account))
				return insert(joined)
			}))
			db.claim(t, tok(33, "a")) // nor does a claim wait that changes nothing
			return insert(tx)
		}))
		require.Equal(t, 3, one[int](t, db, "SELECT count(*) FROM ledger"))

		// The twin writes the mark each time.
		naive := "UPDATE " + db.marks + " SET number = 33"
		second := make(chan error, 1)
		require.NoError(t, inTx(t, db, func(tx *sql.Tx) error {
			run(t, tx, naive)
			go func() {
				_, err := db.ExecContext(ctx, naive)
				second <- err
			}()
			time.Sleep(100 * time.Millisecond)
			require.Empty(t, second, "the twin must wait")
			return nil
		}))
		require.NoError(t, <-second)
	})
}

func TestASuccessorIsNotStarved(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, db *database) {
		db.claim(t, tok(33, "a"))
		older := holding(t, 33, "a")
		working, cancel := context.WithCancel(older)
		defer cancel()
		var writers sync.WaitGroup
		for range 8 {
			writers.Go(func() {
				for working.Err() == nil { // until the successor is in, or for ever
					err := db.update(older, func(*sql.Tx) error { time.Sleep(10 * time.Millisecond); return nil })
					if guard.Refusal(err) {
						return
					}
				}
			})
		}
		time.Sleep(50 * time.Millisecond)
		db.claim(t, tok(34, "b"))
		writers.Wait() // refused, each of them
	})
}
