package sqlguard_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

func TestUpdate(t *testing.T) {
	t.Parallel()
	t.Run("the token is admitted, the write is committed, the mark is raised", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		ctx := e.ctx(33)
		require.NoError(t, e.guard.Update(ctx, resource, e.write(ctx, "first")))
		require.NoError(t, e.guard.Update(ctx, resource, e.write(ctx, "second")))
		require.Equal(t, "second", e.writer())
		require.Equal(t, "33 h33", e.mark(resource))
	})
	t.Run("a stale token is refused before fn runs", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		e.admitted(34)
		err := e.guard.Update(e.ctx(33), resource, func(pgx.Tx) error { panic("fn ran") })
		var stale *guard.StaleError
		require.ErrorAs(t, err, &stale)
		require.Equal(t, guard.Mark{Number: 34, Holder: "h34"}, stale.Mark)
		require.Equal(t, int64(33), stale.Token.Number)
		require.ErrorIs(t, err, guard.ErrStale)
		require.NotErrorIs(t, err, guard.ErrCollision)
		require.EqualError(t, err, "guard: stale token account/42#33: mark is newer")
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg)
		require.Equal(t, "ZF001", pg.Code)
	})
	t.Run("fn's error is returned as it is and rolls back", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		ctx := e.ctx(33)
		own := errors.New("fn's own")
		err := e.guard.Update(ctx, resource, func(tx pgx.Tx) error {
			return errors.Join(e.write(ctx, "x")(tx), own)
		})
		require.ErrorIs(t, err, own)
		require.Empty(t, e.writer())
		require.Equal(t, "33 h33", e.mark(resource), "the claim stands")
	})
	t.Run("a panic in fn rolls back and goes on", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		ctx := e.ctx(33)
		require.PanicsWithValue(t, "boo", func() {
			_ = e.guard.Update(ctx, resource, func(tx pgx.Tx) error { _ = e.write(ctx, "x")(tx); panic("boo") })
		})
		require.Empty(t, e.writer())
		require.Zero(t, e.pool.Stat().AcquiredConns())
	})
	t.Run("Goexit in fn rolls back", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		ctx := e.ctx(33)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = e.guard.Update(ctx, resource, func(tx pgx.Tx) error { _ = e.write(ctx, "x")(tx); runtime.Goexit(); return nil })
		}()
		<-done
		require.Empty(t, e.writer())
		require.Zero(t, e.pool.Stat().AcquiredConns())
	})
	t.Run("no token, no write", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		var refused error
		g := e.with(func(g *sqlguard.Guard) {
			g.Observer.Refused = func(_ context.Context, err error) { refused = err }
		})
		err := g.Update(e.bounded(), resource, func(pgx.Tx) error { panic("fn ran") })
		require.ErrorIs(t, err, token.ErrMissing)
		require.ErrorIs(t, refused, token.ErrMissing)
		err = g.Update(e.ctx(33), "account/43", func(pgx.Tx) error { panic("fn ran") })
		require.ErrorIs(t, err, token.ErrMissing)
	})
	t.Run("fn that swallows an error of the server does not commit", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		ctx := e.ctx(33)
		err := e.guard.Update(ctx, resource, func(tx pgx.Tx) error {
			_ = e.write(ctx, "x")(tx)
			_, _ = tx.Exec(ctx, "SELECT 1/0")
			return nil
		})
		require.ErrorIs(t, err, pgx.ErrTxCommitRollback)
		require.Empty(t, outcomes(err), "an ordinary failure")
		require.Empty(t, e.writer())
	})
	t.Run("fn that commits by itself is told that nobody knows", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		ctx := e.ctx(33)
		err := e.guard.Update(ctx, resource, func(tx pgx.Tx) error { return tx.Commit(ctx) })
		require.ErrorIs(t, err, guard.ErrUnknown)
		require.ErrorIs(t, err, pgx.ErrTxClosed)
	})
	t.Run("a caller who leaves before the commit gets a certain answer", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		ctx, cancel := context.WithCancel(e.ctx(33))
		err := e.guard.Update(ctx, resource, func(tx pgx.Tx) error { defer cancel(); return e.write(ctx, "x")(tx) })
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, outcomes(err))
		require.Empty(t, e.writer())
	})
	t.Run("a guard that cannot raise a mark says so", func(t *testing.T) {
		t.Parallel()
		g := &sqlguard.Guard{}
		require.ErrorContains(t, g.Update(t.Context(), resource, nil), "sqlguard: Guard has no DB")
		g.Tx.AccessMode = pgx.ReadOnly
		require.ErrorContains(t, g.Update(t.Context(), resource, nil), "read only")
		_, err := g.On(resource).Exec(t.Context(), "SELECT 1")
		require.ErrorContains(t, err, "read only")
		require.ErrorContains(t, g.UpdateAll(t.Context(), nil, nil), "no resource")
	})
	t.Run("a schema that is not migrated is named", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		g := e.with(func(g *sqlguard.Guard) { g.Schema = "nowhere" })
		err := g.Update(e.ctx(33), resource, func(pgx.Tx) error { panic("fn ran") })
		require.ErrorContains(t, err, `schema "nowhere" lacks what package migrations creates`)
	})
}
