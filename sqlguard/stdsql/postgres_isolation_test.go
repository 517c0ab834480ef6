package stdsql_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

// hazard G7
func TestPostgresSerializationFailuresAreRetryable(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	run(t, db, "INSERT INTO accounts VALUES (43, 100)")
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
		g, ctx := db.guard(), holding(t, 33, "a")
		g.Tx = &sql.TxOptions{Isolation: level}
		before := balance(t, db)
		err := g.Update(ctx, account, func(tx *sql.Tx) error {
			_, err := read(ctx, tx)
			require.NoError(t, err)
			require.NoError(t, write(ctx, db, before+1)) // somebody who goes around the guard
			return write(ctx, tx, 0)
		})
		require.ErrorIs(t, err, guard.ErrRetryable, "%s", level)
		require.False(t, guard.Refusal(err))
		require.Equal(t, before+1, balance(t, db))
	}
	// Two that read what the other writes: found out when the second commits.
	g, ctx := db.guard(), holding(t, 33, "a")
	g.Tx = &sql.TxOptions{Isolation: sql.LevelSerializable}
	err := g.Update(ctx, account, func(tx *sql.Tx) error {
		require.Equal(t, 100, one[int](t, tx, "SELECT balance FROM accounts WHERE id = 43"))
		require.NoError(t, write(ctx, tx, 0))
		return g.Update(ctx, account, func(other *sql.Tx) error {
			_, err := read(ctx, other)
			require.NoError(t, err)
			_, err = other.ExecContext(ctx, "UPDATE accounts SET balance = 0 WHERE id = 43")
			return err
		})
	})
	require.ErrorIs(t, err, guard.ErrRetryable)
	require.ErrorContains(t, err, "stdsql: commit: ")
	require.NotEqual(t, 0, balance(t, db))
}

// hazard G23
func TestPostgresJoinUnderAFixedSnapshotNeedsAClaim(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	db.claim(t, tok(33, "a"))
	older, newer := holding(t, 33, "a"), holding(t, 34, "b")
	fixed := &sql.TxOptions{Isolation: sql.LevelRepeatableRead}
	tx, err := db.BeginTx(t.Context(), fixed)
	require.NoError(t, err)
	defer tx.Rollback()
	seen := balance(t, tx) // before it is admitted
	require.NoError(t, db.update(older, add(older, 50)))
	require.ErrorIs(t, db.guard().Join(newer, tx, account), guard.ErrClaimFirst)
	require.NoError(t, tx.Rollback())
	db.claim(t, tok(34, "b"))
	require.NoError(t, write(t.Context(), db, seen+10))
	require.Equal(t, 110, balance(t, db), "the twin, which writes all the same, must lose the older one's write")
}
