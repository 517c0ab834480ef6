package stdsql_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

// wrapped is a transaction as other libraries hand it out.
type wrapped struct{ querier }

// nesting is a transaction, or a pool, that begins others.
type nesting struct{ querier }

func (nesting) BeginTx(context.Context) (*nesting, error) { return nil, nil }

func TestJoin(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	g := &stdsql.Guard{} // DB plays no part
	ctx := holding(t, 33, "a")

	t.Run("admits in a transaction, and in what wraps one", func(t *testing.T) {
		require.NoError(t, inTx(t, db, func(tx *sql.Tx) error {
			require.NoError(t, g.Join(ctx, tx, account))
			require.NoError(t, g.Join(ctx, wrapped{tx}, account))
			return add(ctx, 10)(tx)
		}))
		require.Equal(t, 110, balance(t, db))
		require.Equal(t, guard.Mark{Number: 33, Holder: "a"}, mark(t, db, account))
	})
	t.Run("ends with the transaction", func(t *testing.T) {
		newer := holding(t, 34, "b")
		require.ErrorIs(t, inTx(t, db, func(tx *sql.Tx) error {
			require.NoError(t, g.Join(newer, tx, account))
			return sql.ErrNoRows
		}), sql.ErrNoRows)
		require.Equal(t, int64(33), mark(t, db, account).Number)
	})
	t.Run("refuses", func(t *testing.T) {
		for ctx, want := range map[context.Context]error{
			holding(t, 32, "b"): guard.ErrStale, holding(t, 33, "b"): guard.ErrCollision,
			t.Context(): token.ErrMissing, holding(t, 33, ""): token.ErrInvalid,
		} {
			require.ErrorIs(t, inTx(t, db, func(tx *sql.Tx) error { return g.Join(ctx, tx, account) }), want)
		}
	})
	t.Run("no resource is an error", func(t *testing.T) {
		require.Error(t, inTx(t, db, func(tx *sql.Tx) error { return g.Join(ctx, tx) }))
	})
}

// hazard G1
func TestJoinRefusesWhatIsNoTransaction(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	zombie, successor := holding(t, 33, "a"), holding(t, 34, "b")
	g := &stdsql.Guard{DB: db}

	require.NoError(t, g.Join(zombie, wrapped{db}, account), "hidden in a wrapper, the pool is the twin")
	require.NoError(t, g.Update(successor, account, add(successor, 50)))
	require.NoError(t, write(zombie, db, 0))
	require.Equal(t, 0, balance(t, db), "the twin must accept the stale write")

	for name, tx := range map[string]stdsql.Tx{"*sql.DB": db, "*sql.Conn": conn, "stdsql_test.nesting": nesting{db}} {
		require.EqualError(t, g.Join(successor, tx, account),
			"stdsql: Join needs a transaction: "+name+" can begin one, hand over what it began")
	}
	require.EqualError(t, g.Join(successor, nil, account), "stdsql: Join needs a transaction, not nil")
}

func TestJoinAfterAReadThatWasOvertaken(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	g := &stdsql.Guard{DB: db}
	late, successor := holding(t, 33, "a"), holding(t, 34, "b")
	err := inTx(t, db, func(tx *sql.Tx) error {
		_, err := read(late, tx)
		require.NoError(t, err)
		require.NoError(t, g.Update(successor, account, add(successor, 10)))
		return g.Join(late, tx, account)
	})
	require.ErrorIs(t, err, guard.ErrRetryable, "what it has read is old")
	err = inTx(t, db, func(tx *sql.Tx) error { return g.Join(late, tx, account) })
	require.ErrorIs(t, err, guard.ErrStale, "run again, it hears why")
}

// hazard G24
func TestAnAdmissionEndsWithItsSavepoint(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	g := &stdsql.Guard{DB: db}
	older, newer := holding(t, 33, "a"), holding(t, 34, "b")
	join := func(inside bool) {
		require.NoError(t, inTx(t, db, func(tx *sql.Tx) error {
			if !inside {
				require.NoError(t, g.Join(newer, tx, account))
			}
			_, err := tx.ExecContext(newer, "SAVEPOINT s")
			require.NoError(t, err)
			if inside {
				require.NoError(t, g.Join(newer, tx, account))
			}
			_, err = tx.ExecContext(newer, "ROLLBACK TO s")
			require.NoError(t, err)
			return write(newer, tx, 500)
		}))
	}
	join(true)
	require.NoError(t, g.Update(older, account, add(older, 1)), "the newer one wrote, and left no mark")
	join(false)
	require.ErrorIs(t, g.Update(older, account, add(older, 1)), guard.ErrStale)
	require.Equal(t, 500, balance(t, db))
}
