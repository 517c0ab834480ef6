package stdsql_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

// hazard G23
func TestASnapshotIsYoungerThanTheLastOlderWrite(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		for i, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable, sql.LevelReadCommitted} {
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
			require.Equal(t, before+60, balance(t, db), "%s", level)
		}
	})
}

// hazard G3
func TestTheFenceStandsBeforeTheRead(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		g := db.guard()
		older, newer := holding(t, 33, "a"), holding(t, 34, "b")

		seen, err := read(newer, db) // the twin reads first, and fences its write alone
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
