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

// reportOnly returns a guard in report-only mode, and what it has reported.
func (db *database) reportOnly(t *testing.T) (*stdsql.Guard, *[]error) {
	var reported []error
	g := db.guard()
	g.DangerouslyReportOnly = true
	g.Hooks = guard.Hooks{
		Refused:  func(_ context.Context, err error) { t.Error("refused:", err) },
		Reported: func(_ context.Context, err error) { reported = append(reported, err) },
	}
	return g, &reported
}

func TestReportOnlyJudgesAndRefusesNothing(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		g, reported := db.reportOnly(t)
		for _, tok := range []token.Token{tok(33, "a"), tok(32, "b"), tok(34, "")} {
			require.NoError(t, g.Admit(t.Context(), tok))
		}
		require.Len(t, *reported, 2, "of the claims")
		for name, c := range map[string]struct {
			ctx  context.Context
			want error
		}{
			"a stale token":            {holding(t, 32, "b"), guard.ErrStale},
			"a collision":              {holding(t, 33, "b"), guard.ErrCollision},
			"no token":                 {t.Context(), token.ErrMissing},
			"a token without a holder": {holding(t, 34, ""), token.ErrInvalid},
		} {
			*reported = nil
			before := balance(t, db)
			require.NoError(t, g.Update(c.ctx, account, add(c.ctx, 10)))
			require.NoError(t, inTx(t, db, func(tx *sql.Tx) error {
				require.NoError(t, g.Join(c.ctx, tx, account))
				return add(c.ctx, 10)(tx)
			}))
			require.Len(t, *reported, 2, name)
			require.ErrorIs(t, (*reported)[0], c.want, name)
			require.ErrorIs(t, (*reported)[1], c.want, name)
			require.Equal(t, before+20, balance(t, db), "the write goes on unguarded")
			require.Equal(t, guard.Mark{Number: 33, Holder: "a"}, db.mark(t, account), "the mark is that of a guard that refuses")
		}
		*reported = nil
		newer := holding(t, 34, "b")
		require.NoError(t, g.Update(newer, account, add(newer, 10)))
		require.Empty(t, *reported)
		require.Equal(t, int64(34), db.mark(t, account).Number, "what would be admitted raises the mark")
	})
}

// While older writers are in their transactions, a newer token cannot be compared with
// the mark.
func TestReportOnlyGoesOnBesideOlderWriters(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, db *database) {
		g, reported := db.reportOnly(t)
		g.IdleTimeout = 10e6
		if db.dialect == stdsql.MySQL {
			g.DB = connect(t, "mysql", db.setting(t, "innodb_lock_wait_timeout", "1"))
		}
		db.claim(t, tok(33, "a"))
		older, newer := holding(t, 33, "a"), holding(t, 34, "b")
		require.NoError(t, db.update(older, func(tx *sql.Tx) error {
			require.NoError(t, g.Update(newer, account, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(newer, "INSERT INTO ledger (number) VALUES (34)")
				return err
			}))
			require.Len(t, *reported, 1)
			require.ErrorContains(t, (*reported)[0], "stdsql: report-only, account/42#34 was not compared with the mark")
			require.False(t, guard.IsRefusal((*reported)[0]))
			return add(older, 10)(tx)
		}), "no session is ended for it")
		require.Equal(t, 1, one[int](t, db, "SELECT count(*) FROM ledger"))
	})
}
