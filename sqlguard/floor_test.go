package sqlguard_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// prune forgets the marks below cutoff.
func (e *env) prune(cutoff int64) int {
	e.t.Helper()
	return query[int](e, "SELECT "+pgx.Identifier{e.schema, "prune"}.Sanitize()+"($1)", cutoff)
}

// hazard G21
func TestFloorRefusesAtEveryDoor(t *testing.T) {
	t.Parallel()
	doors := map[string]func(e *env, ctx context.Context) error{
		"Update": func(e *env, ctx context.Context) error {
			return e.guard.Update(ctx, resource, e.write(ctx, "stale"))
		},
		"Update under SERIALIZABLE": func(e *env, ctx context.Context) error {
			g := e.with(func(g *sqlguard.Guard) { g.Tx.IsoLevel = pgx.Serializable })
			return g.Update(ctx, resource, e.write(ctx, "stale"))
		},
		"On": func(e *env, ctx context.Context) error {
			_, err := e.guard.On(resource).Exec(ctx, e.sql("UPDATE accounts SET writer = 'stale' WHERE id = 42"))
			return err
		},
		"Join": func(e *env, ctx context.Context) error {
			return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
				if err := e.guard.Join(ctx, tx, resource); err != nil {
					return err
				}
				return e.write(ctx, "stale")(tx)
			})
		},
		"Admit": func(e *env, ctx context.Context) error {
			tok, err := token.FromContext(ctx, resource)
			require.NoError(e.t, err)
			return e.guard.Admit(ctx, tok)
		},
	}
	for name, door := range doors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.admitted(5, 6)
			require.Equal(t, 1, e.prune(10))
			for _, number := range []int64{5, 6, 9} {
				err := door(e, e.ctx(number))
				var stale *guard.StaleError
				require.ErrorAs(t, err, &stale)
				require.Equal(t, guard.Mark{Number: 10}, stale.Mark)
				require.NotErrorIs(t, err, guard.ErrCollision)
			}
			require.Empty(t, e.writer())
			require.NoError(t, door(e, e.ctx(10)), "what is not below the floor is admitted")
			require.Equal(t, "10 h10", e.mark(resource))
		})
		t.Run(name+", the twin: pruned without a floor", func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.admitted(5, 6)
			e.exec("DELETE FROM marks WHERE number < 10")
			require.NoError(t, door(e, e.ctx(5)), "the twin shows nothing: it must admit the stale token")
		})
	}
}

// hazard G21
func TestFloorIsObserved(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.admitted(6)
	require.Equal(t, 1, e.prune(10))
	var observed []error
	g := e.with(func(g *sqlguard.Guard) {
		g.DangerouslyObserve = true
		g.Observer.Observed = func(_ context.Context, err error) { observed = append(observed, err) }
	})
	ctx := e.ctx(6)
	require.NoError(t, g.Update(ctx, resource, e.write(ctx, "stale")))
	require.Len(t, observed, 1)
	var stale *guard.StaleError
	require.ErrorAs(t, observed[0], &stale)
	require.Equal(t, guard.Mark{Number: 10}, stale.Mark)
	require.Equal(t, "stale", e.writer())
}

func TestMintAfterPrune(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	first, err := e.guard.Mint(e.bounded(), e.pool, resource, "a")
	require.NoError(t, err)
	require.Equal(t, 1, e.prune(first.Number+1))
	second, err := e.guard.Mint(e.bounded(), e.pool, resource, "b")
	require.NoError(t, err)
	require.Greater(t, second.Number, first.Number)
	require.ErrorIs(t, e.guard.Admit(e.bounded(), first), guard.ErrStale)
	require.True(t, strings.HasSuffix(e.mark(resource), " b"))
}
