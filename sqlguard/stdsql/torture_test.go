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

func TestTorture(t *testing.T) {
	t.Parallel()
	t.Run("guarded, nothing stale is accepted and nothing is lost", func(t *testing.T) {
		t.Parallel()
		tt := newTorture(t, 2_000)
		tt.run(t, counting(&stdsql.Guard{DB: tt.db}))
		require.Zero(t, tt.lost(t))
		require.Zero(t, tt.disorder(t))
		require.GreaterOrEqual(t, tt.total.Load(), tt.writes)
	})
	t.Run("the twin that only observes accepts the stale", func(t *testing.T) {
		t.Parallel()
		tt := newTorture(t, 100)
		observing := counting(&stdsql.Guard{DB: tt.db, DangerouslyObserve: true, Observer: guard.Observer{Observed: func(context.Context, error) {}}})
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
		require.NotZero(t, tt.disorder(t))
	})
	t.Run("the twin that reads before it is admitted loses writes", func(t *testing.T) {
		t.Parallel()
		tt := newTorture(t, 100)
		g := &stdsql.Guard{DB: tt.db}
		tt.run(t, func(ctx context.Context, tok token.Token) error {
			n, err := countRead(ctx, tt.db, tok.Resource)
			if err != nil {
				return err
			}
			// Each write that is acknowledged overwrites another of its holder's.
			if err := tt.write(ctx, tok, counting(g)); err != nil {
				return err
			}
			return g.Update(ctx, tok.Resource, func(tx *sql.Tx) error { return countWrite(ctx, tx, n+1, tok) })
		})
		require.NotZero(t, tt.lost(t))
	})
}
