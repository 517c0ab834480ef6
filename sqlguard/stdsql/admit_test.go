package stdsql_test

import (
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/guard/guardtest"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

// hazard G23
func TestASnapshotIsYoungerThanTheLastOlderWrite(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		for i, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelRepeatableRead, sql.LevelSerializable, sql.LevelReadCommitted} {
			if db.dialect == stdsql.SQLite {
				level = sql.LevelDefault // it has one
			}
			second, waits := db.second(t)
			second.Tx = &sql.TxOptions{Isolation: level}
			number := int64(2 * i)
			older, newer := holding(t, number+33, "a"), holding(t, number+34, "b")
			before := balance(t, db)
			next := make(chan error, 1)
			require.NoError(t, db.update(older, func(tx *sql.Tx) error {
				go func() { next <- second.Update(newer, account, add(newer, 10)) }()
				waits()
				return add(older, 50)(tx)
			}))
			require.NoError(t, <-next)
			require.Equal(t, before+60, balance(t, db), "the newer one must have read what the older one wrote, %s", level)
			require.ErrorIs(t, db.update(older, add(older, 50)), guard.ErrStale)
		}
	})
}

// hazard G3
func TestTheFenceStandsBeforeTheRead(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		g := db.guard()
		older, newer := holding(t, 33, "a"), holding(t, 34, "b")

		seen, err := read(newer, db) // the twin reads first, and fences only its write
		require.NoError(t, err)
		require.NoError(t, g.Update(older, account, add(older, 50)))
		require.NoError(t, g.Update(newer, account, func(tx *sql.Tx) error { return write(newer, tx, seen+10) }))
		require.Equal(t, 110, balance(t, db), "the twin must lose an acknowledged write, though all were in order")

		newest := token.NewContext(t.Context(), tok(35, "c"))
		db.claim(t, tok(35, "c"))
		seen, err = read(newest, db)
		require.NoError(t, err)
		require.ErrorIs(t, g.Update(newer, account, add(newer, 50)), guard.ErrStale)
		require.NoError(t, g.Update(newest, account, func(tx *sql.Tx) error { return write(newest, tx, seen+10) }))
		require.Equal(t, 120, balance(t, db))
	})
}

// hazard G17
func TestNoTransactionSharesAMarkAndThenRaisesIt(t *testing.T) {
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

// The first token of a resource has no row to lock.
func TestTheFirstAtAResource(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		const resources, writers = 10, 8
		for r := range resources {
			name := fmt.Sprint("new/", r)
			var all sync.WaitGroup
			for n := range writers {
				all.Go(func() {
					for {
						err := db.guard().Admit(t.Context(), token.Token{Resource: name, Number: int64(n + 1), Holder: fmt.Sprint(n)})
						switch guard.IsRefusal(err) || err == nil {
						case true:
							return
						case db.dialect != stdsql.MySQL:
							t.Error(err)
							return
						default: // a deadlock, if another transaction has rolled back
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

// hazard G21
func TestAPrunedMarkDoesNotAdmitTheStale(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		prune := func(cutoff int) {
			run(t, db, fmt.Sprintf("UPDATE %s SET number = %d", db.floor(), cutoff))
			run(t, db, fmt.Sprintf("DELETE FROM %s WHERE number < %d", db.marks, cutoff))
		}
		zombie, successor := tok(33, "a"), tok(34, "b")
		db.claim(t, zombie, successor)
		require.ErrorIs(t, db.guard().Admit(t.Context(), zombie), guard.ErrStale)

		run(t, db, "DELETE FROM "+db.marks)
		db.claim(t, zombie) // the twin, pruned without a floor, must admit the stale token

		db.claim(t, successor)
		prune(40)
		require.Zero(t, db.mark(t, account))
		var stale *guard.StaleError
		require.ErrorAs(t, db.guard().Admit(t.Context(), successor), &stale)
		require.Equal(t, guard.Mark{Number: 40}, stale.Mark, "the floor has no holder")
		require.NotErrorIs(t, stale, guard.ErrCollision)
		ctx := holding(t, 39, "c")
		require.ErrorIs(t, db.update(ctx, add(ctx, 1)), guard.ErrStale)
		at := holding(t, 40, "c")
		require.NoError(t, db.update(at, add(at, 1)), "at the floor")

		other := token.Token{Resource: "account/43", Number: 41, Holder: "a"}
		db.claim(t, other)
		run(t, db, "UPDATE "+db.floor()+" SET number = 50")
		other.Number++
		db.claim(t, other) // if there is a mark, it alone decides
	})
}

// hazard G9
func TestMarksOutliveTheData(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		zombie, successor := holding(t, 33, "a"), holding(t, 34, "b")

		run(t, db, "CREATE TABLE twin (id INTEGER PRIMARY KEY, balance INTEGER, number INTEGER)")
		fenced := func(balance, number int) {
			result, err := db.ExecContext(t.Context(), fmt.Sprintf("UPDATE twin SET balance = %d, number = %d WHERE number <= %[2]d", balance, number))
			require.NoError(t, err)
			if rows, _ := result.RowsAffected(); rows == 0 {
				run(t, db, fmt.Sprintf("INSERT INTO twin VALUES (42, %d, %d)", balance, number))
			}
		}
		fenced(100, 34)
		run(t, db, "DELETE FROM twin")
		fenced(50, 33)
		require.Equal(t, 33, one[int](t, db, "SELECT number FROM twin"), "the twin must take the stale write, since its mark went with the row")

		require.NoError(t, db.update(successor, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(successor, "DELETE FROM accounts")
			return err
		}))
		require.ErrorIs(t, db.update(zombie, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(zombie, "INSERT INTO accounts VALUES (42, 50)")
			return err
		}), guard.ErrStale)
	})
}

// hazard G14
func TestStore(t *testing.T) {
	t.Parallel()
	for i, name := range []string{"PostgreSQL", "MariaDB", "SQLite"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			guardtest.TestStore(t, stores(t, envs[i]))
		})
	}
}
