package stdsql_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

func TestTorture(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		tt := newTorture(t, db, 1_000)
		tt.run(t, counting(db.guard()))
		require.Zero(t, tt.lost(t), "nothing is lost")
		require.Zero(t, tt.disorder(t), "nothing stale is accepted")
		require.GreaterOrEqual(t, tt.total.Load(), tt.writes)
	})
}

func TestTortureOfTheTwinThatOnlyObserves(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		tt := newTorture(t, db, 100)
		g := db.guard()
		g.DangerouslyObserve, g.Observer.Observed = true, func(context.Context, error) {}
		observing := counting(g)
		tt.run(t, func(ctx context.Context, tok token.Token) error {
			// Each write that is acknowledged comes after its successor's.
			if err := tt.write(ctx, tt.mint(tok.Resource, "successor"), observing); err != nil {
				return err
			}
			err := observing(ctx, tok)
			if guard.Refusal(err) {
				t.Error("the twin must refuse nobody:", err)
			}
			return err
		})
		require.NotZero(t, tt.disorder(t), "the twin must accept the stale")
	})
}

func TestTortureOfTheTwinThatReadsBeforeItIsAdmitted(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		tt := newTorture(t, db, 100)
		g := db.guard()
		tt.run(t, func(ctx context.Context, tok token.Token) error {
			n, err := countRead(ctx, tt, tok.Resource)
			if err != nil {
				return err
			}
			// Each write that is acknowledged overwrites another of its holder's.
			if err := tt.write(ctx, tok, counting(g)); err != nil {
				return err
			}
			return g.Update(ctx, tok.Resource, func(tx *sql.Tx) error { return countWrite(ctx, tx, n+1, tok) })
		})
		require.NotZero(t, tt.lost(t), "the twin must lose writes")
	})
}
