package stdsql_test

import (
	"database/sql"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// second is a guard with a pool of its own, and waits until it is in the way of
// somebody's lock; of SQLite's it is enough that it has asked.
func (db *database) second(t *testing.T) (g *stdsql.Guard, waits func()) {
	t.Helper()
	if db.dialect != stdsql.SQLite {
		return db.over(db.connect(t)), func() { db.awaitWaiting(t) }
	}
	asked := make(chan struct{})
	var once sync.Once
	pool := db.hooked(t, &hooks{exec: func(query string) error {
		if strings.Contains(query, "fencepost_marks") {
			once.Do(func() { close(asked) })
		}
		return nil
	}})
	return db.over(pool), func() { <-asked }
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
				waits() // elsewhere the newer one has claimed by now, and nobody waits
			}
			return add(newer, 10)(tx)
		}
		require.NoError(t, db.update(newer, write))
		require.ErrorIs(t, <-late, guard.ErrStale)
		require.Equal(t, 110, balance(t, db))
	})
}

func TestTheNewerBehindAnOpenTransactionOfTheOlder(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		second, waits := db.second(t)
		older, newer := holding(t, 33, "a"), holding(t, 34, "b")
		next := make(chan error, 1)
		require.NoError(t, db.update(older, func(tx *sql.Tx) error {
			go func() { next <- second.Update(newer, account, add(newer, 10)) }()
			waits()
			return add(older, 50)(tx)
		}))
		require.NoError(t, <-next)
		require.Equal(t, 160, balance(t, db), "the newer one must have read what the older one wrote")
		require.ErrorIs(t, db.update(older, add(older, 50)), guard.ErrStale)
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
		require.NoError(t, g.Update(successor, account, add(successor, 10))) // in between
		require.NoError(t, write(zombie, db, 150))
		require.Equal(t, 150, balance(t, db), "the twin must lose the successor's write")

		next := make(chan error, 1)
		require.NoError(t, g.Update(successor, account, func(tx *sql.Tx) error {
			go func() { next <- second.Update(third, account, add(third, 1)) }()
			if db.dialect != stdsql.SQLite {
				db.awaitWaiting(t)
			}
			require.Empty(t, next, "nobody gets in between")
			return add(successor, 10)(tx)
		}))
		require.NoError(t, <-next)
		require.ErrorIs(t, g.Update(zombie, account, add(zombie, 50)), guard.ErrStale)
		require.Equal(t, 161, balance(t, db))
	})
}
