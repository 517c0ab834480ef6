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

func TestObserveOnlyJudgesAndRefusesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		ctx  func(t *testing.T) context.Context
		want error
	}{
		{"a stale token", func(t *testing.T) context.Context { return holding(t, 32, "b") }, guard.ErrStale},
		{"a collision", func(t *testing.T) context.Context { return holding(t, 33, "b") }, guard.ErrCollision},
		{"no token", func(t *testing.T) context.Context { return t.Context() }, token.ErrMissing},
		{"a token without a holder", func(t *testing.T) context.Context { return holding(t, 34, "") }, token.ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := newDB(t)
			var observed []error
			g := &stdsql.Guard{DB: db, DangerouslyObserve: true, Observer: guard.Observer{
				Refused:  func(_ context.Context, err error) { t.Error("refused:", err) },
				Observed: func(_ context.Context, err error) { observed = append(observed, err) },
			}}
			require.NoError(t, g.Admit(t.Context(), tok(33, "a")))
			ctx := c.ctx(t)

			require.NoError(t, g.Update(ctx, account, add(ctx, 10)))
			require.NoError(t, inTx(t, db, func(tx *sql.Tx) error {
				require.NoError(t, g.Join(ctx, tx, account))
				return add(ctx, 10)(tx)
			}))
			require.Len(t, observed, 2)
			require.ErrorIs(t, observed[0], c.want)
			require.ErrorIs(t, observed[1], c.want)
			require.Equal(t, 120, balance(t, db), "the write goes on unguarded")
			require.Equal(t, guard.Mark{Number: 33, Holder: "a"}, mark(t, db, account), "the mark is that of a guard that refuses")
		})
	}
}

func TestObserveOnlyClaims(t *testing.T) {
	t.Parallel()
	observed := 0
	g := &stdsql.Guard{DB: newDB(t), DangerouslyObserve: true, Observer: guard.Observer{
		Observed: func(context.Context, error) { observed++ },
	}}
	for _, tok := range []token.Token{tok(33, "a"), tok(32, "b"), tok(34, "")} {
		require.NoError(t, g.Admit(t.Context(), tok))
	}
	require.Equal(t, 2, observed)
}

func TestObserveOnlyLeavesOtherErrorsAlone(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	run(t, db, "DROP TABLE fencepost_marks")
	ctx := holding(t, 33, "a")
	g := &stdsql.Guard{DB: db, DangerouslyObserve: true}
	require.ErrorContains(t, g.Update(ctx, account, add(ctx, 10)), "no such table")
}

// inTx is a transaction that somebody else begins and ends.
func inTx(t *testing.T, db *sql.DB, fn func(tx *sql.Tx) error) error {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer tx.Rollback()
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}
