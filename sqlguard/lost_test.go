package sqlguard_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

func TestLeaseLostBefore(t *testing.T) {
	t.Parallel()
	lost := &token.LostError{Token: token.Token{Resource: resource, Number: 33}}
	t.Run("between fn and the commit it decides nothing", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		ctx, lose := e.leased(33)
		require.NoError(t, e.guard.Update(ctx, resource, func(tx pgx.Tx) error { defer lose(lost); return e.write(ctx, "x")(tx) }))
		require.Equal(t, "x", e.writer())
	})
	t.Run("it is joined to fn's error", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		ctx, lose := e.leased(33)
		own := errors.New("own")
		err := e.guard.Update(ctx, resource, func(pgx.Tx) error { lose(lost); return own })
		require.ErrorIs(t, err, own)
		require.ErrorIs(t, err, token.ErrLost)
	})
	t.Run("it is joined to a refusal", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		ctx, lose := e.leased(33)
		g := e.with(func(g *sqlguard.Guard) { g.Observer.Refused = func(context.Context, error) { lose(lost) } })
		e.admitted(34)
		err := g.Update(ctx, resource, func(pgx.Tx) error { panic("fn ran") }) // lost while it was asked
		require.ErrorIs(t, err, guard.ErrStale)
		require.ErrorIs(t, err, token.ErrLost)
		require.Len(t, outcomes(err), 1)
	})
	t.Run("before anything was sent the mark decides, and the refusal says so", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		for name, door := range doors(e, e.guard) {
			e.exec("DELETE FROM marks")
			e.admitted(34)
			ctx, lose := e.leased(33)
			lose(lost)
			err := door(ctx, "x")
			if name == "Join" { // it is pgx's Begin that fails
				require.ErrorIs(t, err, context.Canceled)
				continue
			}
			require.ErrorIs(t, err, guard.ErrStale, name)
			require.ErrorIs(t, err, token.ErrLost, name)
		}
		require.Equal(t, "34 h34", e.mark(resource))
	})
	t.Run("the newest token's single statement is applied", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		e.admitted(33)
		ctx, lose := e.leased(33)
		lose(lost)
		_, err := e.guard.On(resource).Exec(ctx, e.sql("UPDATE accounts SET writer = 'x' WHERE id = 42"))
		require.NoError(t, err)
		require.Equal(t, "x", e.writer())
	})
	t.Run("a caller who has left is no lost lease", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		ctx, leave := context.WithCancel(e.ctx(33))
		leave()
		for name, door := range doors(e, e.guard) {
			err := door(ctx, "x")
			require.ErrorIs(t, err, context.Canceled, name)
			require.Empty(t, outcomes(err), name)
		}
		require.Empty(t, e.mark(resource))
	})
}
