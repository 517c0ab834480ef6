package stdsql_test

import (
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

// hazard G17
func TestNobodySharesAMarkAndThenRaisesIt(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, db *database) {
		share := map[stdsql.Dialect]string{stdsql.Postgres: "FOR SHARE", stdsql.MySQL: "LOCK IN SHARE MODE"}[db.dialect]
		db.claim(t, tok(33, "a"))
		raised := make(chan error, 2)
		var twins [2]*sql.Tx
		for i := range twins {
			twin, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			defer twin.Rollback()
			run(t, twin, "SELECT number FROM "+db.marks+" "+share)
			twins[i] = twin
		}
		for _, twin := range twins {
			go func() {
				_, err := twin.ExecContext(t.Context(), "UPDATE "+db.marks+" SET number = 34")
				raised <- errors.Join(err, twin.Rollback())
			}()
		}
		one, other := <-raised, <-raised
		require.ErrorContains(t, errors.Join(one, other), "eadlock", "of the twins one must be sent away")

		older := holding(t, 33, "a")
		results := make(chan error, 8)
		require.NoError(t, db.update(older, func(tx *sql.Tx) error {
			for n := range cap(results) {
				go func() { results <- db.guard().Admit(t.Context(), tok(int64(34+n), "b")) }()
			}
			db.awaitWaiting(t)
			return add(older, 10)(tx)
		}))
		for range cap(results) {
			if err := <-results; err != nil {
				require.ErrorIs(t, err, guard.ErrStale, "each is admitted, or comes late")
			}
		}
		require.Equal(t, guard.Mark{Number: int64(33 + cap(results)), Holder: "b"}, db.mark(t, account))
	})
}

// Whoever is first at a resource finds nothing to lock.
func TestTheFirstAtAResource(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		const resources, writers = 50, 8
		for r := range resources {
			name := fmt.Sprint("new/", r)
			var all sync.WaitGroup
			for n := range writers {
				all.Go(func() {
					for {
						err := db.guard().Admit(t.Context(), token.Token{Resource: name, Number: int64(n + 1), Holder: fmt.Sprint(n)})
						switch guard.Refusal(err) || err == nil {
						case true:
							return
						case db.dialect != stdsql.MySQL:
							t.Error(err)
							return
						default: // a deadlock, where somebody has rolled back
							require.ErrorIs(t, err, guard.ErrRetryable)
						}
					}
				})
			}
			all.Wait()
			require.Equal(t, guard.Mark{Number: writers, Holder: fmt.Sprint(writers - 1)}, db.mark(t, name))
		}
	})
}
