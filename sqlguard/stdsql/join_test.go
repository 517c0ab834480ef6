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
	onEach(t, func(t *testing.T, db *database) {
		g := db.over(nil) // DB plays no part
		db.claim(t, tok(33, "a"))
		ctx := holding(t, 33, "a")

		require.NoError(t, inTx(t, db, func(tx *sql.Tx) error {
			require.NoError(t, g.Join(ctx, tx, account))
			require.NoError(t, g.Join(ctx, wrapped{tx}, account), "what wraps a transaction")
			return add(ctx, 10)(tx)
		}))
		require.Equal(t, 110, balance(t, db))
		require.Equal(t, guard.Mark{Number: 33, Holder: "a"}, db.mark(t, account))

		for ctx, want := range map[context.Context]error{
			holding(t, 32, "b"): guard.ErrStale, holding(t, 33, "b"): guard.ErrCollision,
			t.Context(): token.ErrMissing, holding(t, 33, ""): token.ErrInvalid,
		} {
			require.ErrorIs(t, inTx(t, db, func(tx *sql.Tx) error { return g.Join(ctx, tx, account) }), want)
		}
		require.Error(t, inTx(t, db, func(tx *sql.Tx) error { return g.Join(ctx, tx) }), "no resource")
	})
}

func TestJoinUnderATokenThatWasNotClaimed(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		g, ctx := db.over(nil), holding(t, 33, "a")
		err := inTx(t, db, func(tx *sql.Tx) error {
			if err := g.Join(ctx, tx, account); err != nil {
				return err
			}
			return add(ctx, 10)(tx)
		})
		if db.dialect != stdsql.MySQL {
			require.NoError(t, err)
			require.Equal(t, int64(33), db.mark(t, account).Number)
			require.ErrorIs(t, inTx(t, db, func(tx *sql.Tx) error {
				newer := holding(t, 34, "b")
				require.NoError(t, g.Join(newer, tx, account))
				return sql.ErrNoRows
			}), sql.ErrNoRows)
			require.Equal(t, int64(33), db.mark(t, account).Number, "a raise ends with its transaction")
			return
		}
		require.ErrorIs(t, err, guard.ErrClaimFirst)
		require.False(t, guard.Refusal(err))
		require.ErrorContains(t, err, "admit account/42#33: it has not raised the mark yet")
		require.Zero(t, db.mark(t, account))
		db.claim(t, tok(33, "a"))
		require.NoError(t, inTx(t, db, func(tx *sql.Tx) error { return g.Join(ctx, tx, account) }))
	})
}

// hazard G1
func TestJoinRefusesWhatIsNoTransaction(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		defer conn.Close()
		zombie, successor := holding(t, 33, "a"), holding(t, 34, "b")
		g := db.guard()
		db.claim(t, tok(33, "a"))

		require.NoError(t, g.Join(zombie, wrapped{db}, account), "hidden in a wrapper, the pool is the twin")
		require.NoError(t, g.Update(successor, account, add(successor, 50)))
		require.NoError(t, write(zombie, db, 0))
		require.Equal(t, 0, balance(t, db), "the twin must accept the stale write")

		for name, tx := range map[string]stdsql.Tx{"*sql.DB": db.DB, "*sql.Conn": conn, "stdsql_test.nesting": nesting{db}} {
			require.EqualError(t, g.Join(successor, tx, account),
				"stdsql: Join needs a transaction: "+name+" can begin one, hand over what it began")
		}
		require.EqualError(t, g.Join(successor, nil, account), "stdsql: Join needs a transaction, not nil")
	})
}
