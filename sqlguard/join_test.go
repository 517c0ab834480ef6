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

// open is a transaction that the test's end rolls back.
func (e *env) open(options pgx.TxOptions) pgx.Tx {
	e.t.Helper()
	tx, err := e.pool.BeginTx(e.t.Context(), options)
	require.NoError(e.t, err)
	e.t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(e.t.Context())) })
	return tx
}

func TestInsideATransaction(t *testing.T) {
	t.Parallel()
	t.Run("every door works behind a transaction and a savepoint", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		for _, name := range []string{"Update", "UpdateAll", "On.Exec", "On.Query", "On.QueryRow", "On.SendBatch", "On.CopyFrom", "Join"} {
			tx := e.open(pgx.TxOptions{})
			door := doors(e, e.with(func(g *sqlguard.Guard) { g.DB = tx }))[name]
			require.NoError(t, door(e.ctx(33), "inside"), name)
			require.Empty(t, e.writer(), name)
			sp, err := tx.Begin(e.bounded())
			require.NoError(t, err)
			door = doors(e, e.with(func(g *sqlguard.Guard) { g.DB = sp }))[name]
			require.NoError(t, door(e.ctx(33), "deeper"), name)
			require.NoError(t, sp.Commit(e.bounded()))
			require.NoError(t, tx.Commit(e.bounded()), name)
			require.Equal(t, "deeper", e.writer(), name)
			e.exec("UPDATE accounts SET writer = ''")
		}
	})
	t.Run("a refused Update leaves the outer transaction usable, a refused statement or Join aborts it", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		e.admitted(34)
		for name, aborts := range map[string]bool{"Update": false, "On.CopyFrom": true, "On.Exec": true, "On.Query": true, "On.SendBatch": true} {
			tx := e.open(pgx.TxOptions{})
			door := doors(e, e.with(func(g *sqlguard.Guard) { g.DB = tx }))[name]
			require.ErrorIs(t, door(e.ctx(33), "stale"), guard.ErrStale, name)
			_, err := tx.Exec(e.bounded(), "SELECT 1")
			require.Equal(t, aborts, err != nil, name)
			if err := tx.Commit(e.bounded()); aborts {
				require.ErrorIs(t, err, pgx.ErrTxCommitRollback, name)
			}
		}
		tx := e.open(pgx.TxOptions{})
		require.ErrorIs(t, e.guard.Join(e.ctx(33), tx, resource), guard.ErrStale)
		_, err := tx.Exec(e.bounded(), "SELECT 1")
		require.ErrorContains(t, err, "25P02", "whoever ignores the refusal writes nothing")
		require.Empty(t, e.writer())
	})
	t.Run("fn's error and panic roll back to the savepoint", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		tx := e.open(pgx.TxOptions{})
		g := e.with(func(g *sqlguard.Guard) { g.DB = tx })
		ctx, own := e.ctx(33), errors.New("own")
		err := g.Update(ctx, resource, func(tx pgx.Tx) error { return errors.Join(e.write(ctx, "x")(tx), own) })
		require.ErrorIs(t, err, own)
		require.Panics(t, func() {
			_ = g.Update(ctx, resource, func(tx pgx.Tx) error { _ = e.write(ctx, "x")(tx); panic("boo") })
		})
		require.NoError(t, tx.Commit(ctx))
		require.Empty(t, e.writer())
	})
	t.Run("a swallowed error is an ordinary one, not an unknown", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		g := e.with(func(g *sqlguard.Guard) { g.DB = e.open(pgx.TxOptions{}) })
		err := g.Update(e.ctx(33), resource, func(tx pgx.Tx) error { _, _ = tx.Exec(e.bounded(), "SELECT 1/0"); return nil })
		require.Error(t, err)
		require.Empty(t, outcomes(err))
	})
	t.Run("a connection that is inside a transaction is no place to begin one", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		conn, err := e.pool.Acquire(t.Context())
		require.NoError(t, err)
		defer conn.Release()
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		defer tx.Rollback(t.Context())
		for _, db := range []sqlguard.DB{conn, conn.Conn()} {
			g := e.with(func(g *sqlguard.Guard) { g.DB = db })
			require.ErrorContains(t, g.Update(e.ctx(33), resource, nil), "inside a transaction already")
			_, err = g.Mint(e.bounded(), db, resource, "h")
			require.ErrorContains(t, err, "inside a transaction already")
		}
	})
	t.Run("an admission inside a transaction is no durable one", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		g := e.with(func(g *sqlguard.Guard) { g.DB = e.open(pgx.TxOptions{}) })
		err := g.Admit(e.bounded(), token.Token{Resource: resource, Number: 1, Holder: "h"})
		require.ErrorContains(t, err, "would not be durable")
	})
	t.Run("Join needs a resource and a token", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		tx := e.open(pgx.TxOptions{})
		require.ErrorContains(t, e.guard.Join(e.ctx(33), tx), "no resource was named")
		require.ErrorIs(t, e.guard.Join(e.ctx(33), tx, resource, "account/43"), token.ErrMissing)
		require.NoError(t, e.guard.Join(e.ctx(33), tx, resource), "nothing was sent, nothing aborted")
	})
}
