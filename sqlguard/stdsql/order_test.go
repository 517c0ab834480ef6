package stdsql_test

import (
	"context"
	"database/sql"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// second returns a guard with its own pool, and a function that waits until it blocks on
// a lock. For SQLite that function waits until the statement was sent.
func (db *database) second(t *testing.T) (g *stdsql.Guard, waits func()) {
	t.Helper()
	if db.dialect != stdsql.SQLite {
		return db.over(db.connect(t)), func() { db.awaitWaiting(t) }
	}
	sent := make(chan struct{})
	var once sync.Once
	pool := db.hooked(t, &hooks{exec: func(query string) error {
		if strings.Contains(query, "fencepost_marks") {
			once.Do(func() { close(sent) })
		}
		return nil
	}})
	return db.over(pool), func() { <-sent }
}

func TestTheStaleBehindAnOpenTransactionOfTheNewer(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		second, waits := db.second(t)
		older, newer := holding(t, 33, "a"), holding(t, 34, "b")
		late := make(chan error, 1)
		write := func(tx *sql.Tx) error {
			go func() { late <- second.Update(older, account, add(older, 50)) }()
			if db.dialect == stdsql.SQLite {
				waits() // on the others the newer token has claimed by now, and no session waits
			}
			return add(newer, 10)(tx)
		}
		require.NoError(t, db.update(newer, write))
		require.ErrorIs(t, <-late, guard.ErrStale)
		require.Equal(t, 110, balance(t, db))
	})
}

// hazard G1
func TestCompareAndWriteAreOneTransaction(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		g, second := db.guard(), db.over(db.connect(t))
		zombie, successor, third := holding(t, 33, "a"), holding(t, 34, "b"), holding(t, 35, "c")
		db.claim(t, tok(33, "a"))

		require.Equal(t, int64(33), db.mark(t, account).Number, "the twin looks, and may write")
		require.NoError(t, g.Update(successor, account, add(successor, 10))) // between the two
		require.NoError(t, write(zombie, db, 150))
		require.Equal(t, 150, balance(t, db), "the twin must lose the successor's write")

		next := make(chan error, 1)
		require.NoError(t, g.Update(successor, account, func(tx *sql.Tx) error {
			go func() { next <- second.Update(third, account, add(third, 1)) }()
			if db.dialect != stdsql.SQLite {
				db.awaitWaiting(t)
			}
			require.Empty(t, next, "no writer gets in between")
			return add(successor, 10)(tx)
		}))
		require.NoError(t, <-next)
		require.ErrorIs(t, g.Update(zombie, account, add(zombie, 50)), guard.ErrStale)
		require.Equal(t, 161, balance(t, db))
	})
}

// onServers runs a test on the databases whose writers can run in parallel.
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
			db.claim(t, tok(33, "a")) // a claim that changes nothing does not wait either
			return insert(tx)
		}))
		require.Equal(t, 3, one[int](t, db, "SELECT count(*) FROM ledger"))

		// The twin writes the mark each time.
		naive := "UPDATE " + db.marks + " SET number = 33"
		if db.dialect == stdsql.Postgres {
			naive = `UPDATE "` + db.schema + `".marks SET number = 33`
		}
		second := make(chan error, 1)
		require.NoError(t, inTx(t, db, func(tx *sql.Tx) error {
			run(t, tx, naive)
			go func() {
				_, err := db.ExecContext(ctx, naive)
				second <- err
			}()
			db.awaitWaiting(t) // the twin must wait
			require.Empty(t, second)
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
		var writers, in sync.WaitGroup
		for range 8 {
			in.Add(1)
			began := sync.OnceFunc(in.Done)
			writers.Go(func() {
				for working.Err() == nil { // until the successor is admitted
					err := db.update(older, func(*sql.Tx) error { began(); time.Sleep(10 * time.Millisecond); return nil })
					if guard.IsRefusal(err) {
						return
					}
				}
			})
		}
		in.Wait()
		db.claim(t, tok(34, "b"))
		writers.Wait() // each one is refused
	})
}
