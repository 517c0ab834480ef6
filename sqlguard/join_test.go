package sqlguard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// open returns a transaction that is rolled back when the test ends.
func (e *env) open(options pgx.TxOptions) pgx.Tx {
	e.t.Helper()
	tx, err := e.pool.BeginTx(e.t.Context(), options)
	require.NoError(e.t, err)
	e.t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(e.t.Context())) })
	return tx
}

func TestInsideATransaction(t *testing.T) {
	t.Parallel()
	inEnv(t, "every door works after a transaction and a savepoint", func(t *testing.T, e *env) {
		for _, name := range []string{"Update", "UpdateAll", "On.Exec", "On.Query", "On.QueryRow", "On.SendBatch", "On.CopyFrom", "Join"} {
			tx := e.open(pgx.TxOptions{})
			door := doors(e, e.by(tx))[name]
			require.NoError(t, door(e.ctx(33), "inside"), name)
			require.Empty(t, e.writer(), name)
			sp, err := tx.Begin(e.bounded())
			require.NoError(t, err)
			door = doors(e, e.by(sp))[name]
			require.NoError(t, door(e.ctx(33), "deeper"), name)
			require.NoError(t, sp.Commit(e.bounded()))
			require.NoError(t, tx.Commit(e.bounded()), name)
			require.Equal(t, "deeper", e.writer(), name)
			e.exec("UPDATE accounts SET writer = ''")
		}
	})
	inEnv(t, "a refused Update leaves the outer transaction usable, a refused statement or Join aborts it", func(t *testing.T, e *env) {
		e.admitted(34)
		for name, aborts := range map[string]bool{"Update": false, "On.CopyFrom": true, "On.Exec": true, "On.Query": true, "On.SendBatch": true} {
			tx := e.open(pgx.TxOptions{})
			door := doors(e, e.by(tx))[name]
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
		require.ErrorContains(t, err, "25P02", "a caller that ignores the refusal writes nothing")
		require.Empty(t, e.writer())
	})
	inEnv(t, "fn's error and panic roll back to the savepoint", func(t *testing.T, e *env) {
		tx := e.open(pgx.TxOptions{})
		g := e.by(tx)
		ctx, own := e.ctx(33), errors.New("own")
		err := g.Update(ctx, resource, func(tx pgx.Tx) error { return errors.Join(e.write(ctx, "x")(tx), own) })
		require.ErrorIs(t, err, own)
		require.Panics(t, func() {
			_ = g.Update(ctx, resource, func(tx pgx.Tx) error { _ = e.write(ctx, "x")(tx); panic("boo") })
		})
		require.NoError(t, tx.Commit(ctx))
		require.Empty(t, e.writer())
	})
	inEnv(t, "a swallowed error is an ordinary one, not an unknown", func(t *testing.T, e *env) {
		g := e.with(func(g *sqlguard.Guard) { g.DB = e.open(pgx.TxOptions{}) })
		err := g.Update(e.ctx(33), resource, func(tx pgx.Tx) error { _, _ = tx.Exec(e.bounded(), "SELECT 1/0"); return nil })
		require.Error(t, err)
		require.Empty(t, outcomes(err))
	})
	inEnv(t, "a connection that is inside a transaction is no place to begin one", func(t *testing.T, e *env) {
		conn := acquire(t, e.pool)
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		defer tx.Rollback(t.Context())
		for _, db := range []sqlguard.DB{conn, conn.Conn()} {
			g := e.by(db)
			require.ErrorContains(t, g.Update(e.ctx(33), resource, nil), "inside a transaction already")
			_, err = g.Mint(e.bounded(), resource, "h")
			require.ErrorContains(t, err, "inside a transaction already")
		}
	})
	inEnv(t, "an admission inside a transaction is no durable one", func(t *testing.T, e *env) {
		g := e.with(func(g *sqlguard.Guard) { g.DB = e.open(pgx.TxOptions{}) })
		err := g.Admit(e.bounded(), token.Token{Resource: resource, Number: 1, Holder: "h"})
		require.ErrorContains(t, err, "must be durable")
		_, err = g.Mint(e.bounded(), resource, "h")
		require.ErrorContains(t, err, "must be durable")
	})
	inEnv(t, "Join needs a resource and a token", func(t *testing.T, e *env) {
		tx := e.open(pgx.TxOptions{})
		require.ErrorContains(t, e.guard.JoinAll(e.ctx(33), tx, nil), "no resources")
		require.ErrorIs(t, e.guard.JoinAll(e.ctx(33), tx, []string{resource, "account/43"}), token.ErrMissing)
		require.ErrorContains(t, e.guard.Join(e.ctx(33), tx, resource), "25P02", "the transaction is aborted")
	})
}

// failing are the ways in which a call inside a transaction fails.
func failing(e *env) map[string]func(g *sqlguard.Guard, tx pgx.Tx) error {
	gone, leave := context.WithCancel(e.ctx(33))
	leave()
	set := e.sql("UPDATE accounts SET writer = $1 WHERE id = 42")
	on := func(g *sqlguard.Guard, tx pgx.Tx) sqlguard.Conn {
		inside := *g
		inside.DB = tx
		return inside.On(resource)
	}
	exec := func(ctx context.Context, sql string, args ...any) func(*sqlguard.Guard, pgx.Tx) error {
		return func(g *sqlguard.Guard, tx pgx.Tx) error {
			_, err := on(g, tx).Exec(ctx, sql, args...)
			return err
		}
	}
	return map[string]func(g *sqlguard.Guard, tx pgx.Tx) error{
		"Join of nothing":      func(g *sqlguard.Guard, tx pgx.Tx) error { return g.JoinAll(e.ctx(33), tx, nil) },
		"Join without a token": func(g *sqlguard.Guard, tx pgx.Tx) error { return g.Join(e.bounded(), tx, resource) },
		"Join, one of two tokens": func(g *sqlguard.Guard, tx pgx.Tx) error {
			return g.JoinAll(e.ctx(33), tx, []string{resource, "account/43"})
		},
		"Join, an incomplete token": func(g *sqlguard.Guard, tx pgx.Tx) error { return g.Join(e.as(33, ""), tx, resource) },
		"Join, stale":               func(g *sqlguard.Guard, tx pgx.Tx) error { return g.Join(e.ctx(32), tx, resource) },
		"Join, the caller has left": func(g *sqlguard.Guard, tx pgx.Tx) error { return g.Join(gone, tx, resource) },
		"Join, where a hook panics": func(g *sqlguard.Guard, tx pgx.Tx) (err error) {
			loud := *g
			loud.Hooks.Refused = func(context.Context, error) { panic("boo") }
			defer func() { err = errors.Join(err, fmt.Errorf("%v", recover())) }()
			return loud.Join(e.bounded(), tx, resource)
		},
		"Join, rows are not read yet": func(g *sqlguard.Guard, tx pgx.Tx) error {
			rows, err := tx.Query(e.bounded(), "SELECT generate_series(1, 3)")
			require.NoError(e.t, err)
			defer rows.Close()
			return g.Join(e.ctx(33), tx, resource)
		},
		"On without a token":             exec(e.bounded(), set, "x"),
		"On, the caller has left":        exec(gone, set, "x"),
		"On, an end":                     exec(e.ctx(33), "/**/COMMIT"),
		"On, an option":                  exec(e.ctx(33), set, pgx.QueryExecModeExec, "x"),
		"On, an argument without a form": exec(e.ctx(33), set, make(chan int)),
		"On, a batch that begins": func(g *sqlguard.Guard, tx pgx.Tx) error {
			b := &pgx.Batch{}
			b.BeginTx(pgx.TxOptions{})
			return on(g, tx).SendBatch(e.ctx(33), b).Close()
		},
		"On, a batch without a token": func(g *sqlguard.Guard, tx pgx.Tx) error {
			b := &pgx.Batch{}
			b.Queue(set, "x")
			return on(g, tx).SendBatch(e.bounded(), b).Close()
		},
		"On, a copy without a token": func(g *sqlguard.Guard, tx pgx.Tx) error {
			_, err := on(g, tx).CopyFrom(e.bounded(), pgx.Identifier{e.schema, "accounts"}, []string{"id"}, pgx.CopyFromRows(nil))
			return err
		},
	}
}

// hazard G29
func TestAnIgnoredErrorWritesNothing(t *testing.T) {
	t.Parallel()
	for _, pooled := range []bool{false, true} {
		for _, mode := range pooledModes {
			inEnv(t, fmt.Sprintf("in mode %s, pooled %t", mode, pooled), func(t *testing.T, e *env) {
				e.admitted(33)
				url := testenv.PostgresURL(t)
				if pooled {
					url = testenv.PgBouncer(t)
				}
				pool := client(t, url, mode, 1)
				for name, fail := range failing(e) {
					for _, nested := range []bool{false, true} {
						outer, err := pool.Begin(t.Context())
						require.NoError(t, err, name)
						tx := outer
						if nested {
							tx, err = outer.Begin(t.Context())
							require.NoError(t, err, name)
						}
						require.Error(t, fail(e.guard, tx), name)
						_ = e.write(t.Context(), "unguarded")(tx)
						if nested {
							_ = tx.Commit(t.Context())
							_ = e.write(t.Context(), "unguarded")(outer)
						}
						_ = outer.Commit(t.Context())
						require.Empty(t, e.writer(), "%s, nested %t", name, nested)
					}
				}
			})
		}
	}
	inEnv(t, "a savepoint before it can be gone back to", func(t *testing.T, e *env) {
		tx := e.open(pgx.TxOptions{})
		inner, err := tx.Begin(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, e.guard.Join(e.bounded(), inner, resource), token.ErrMissing)
		require.NoError(t, inner.Rollback(t.Context()))
		require.NoError(t, e.write(t.Context(), "of the caller's own")(tx))
		require.NoError(t, tx.Commit(t.Context()))
		require.Equal(t, "of the caller's own", e.writer())
	})
	inEnv(t, "the twin, in report-only mode, aborts nothing", func(t *testing.T, e *env) {
		e.admitted(34)
		twin, _ := e.reporting(e.pool)
		tx := e.open(pgx.TxOptions{})
		require.Error(t, twin.JoinAll(e.ctx(33), tx, nil))
		require.NoError(t, e.write(t.Context(), "stale")(tx))
		require.NoError(t, tx.Commit(t.Context()))
		require.Equal(t, "stale", e.writer(), "the twin must be corrupted")
	})
}

// The twin, which joins after a savepoint that is rolled back, is a case of
// TestUnadmittedWritesOfAProtectedTable.
//
// hazard G24
func TestAdmissionThatEndsTooSoon(t *testing.T) {
	t.Parallel()
	inEnv(t, "joined before the savepoint, its rollback changes nothing", func(t *testing.T, e *env) {
		e.admitted(33)
		tx, ctx := e.open(pgx.TxOptions{}), e.ctx(33)
		require.NoError(t, e.guard.Join(ctx, tx, resource))
		sp, err := tx.Begin(ctx)
		require.NoError(t, err)
		require.NoError(t, sp.Rollback(ctx))
		newer := async(func() error { return e.guard.Update(e.ctx(34), resource, e.write(ctx, "B")) })
		e.awaitWaiting(1)
		require.NoError(t, e.write(ctx, "A")(tx))
		require.NoError(t, tx.Commit(ctx))
		require.NoError(t, await(t, newer))
		require.Equal(t, "B", e.writer())
	})
	inEnv(t, "fn of an Update cannot roll back its admission, whatever it does with savepoints", func(t *testing.T, e *env) {
		e.admitted(33)
		ctx := e.ctx(33)
		var newer <-chan error
		require.NoError(t, e.guard.Update(ctx, resource, func(tx pgx.Tx) error {
			sp, err := tx.Begin(ctx)
			require.NoError(t, err)
			require.NoError(t, e.guard.Join(ctx, sp, resource))
			require.NoError(t, sp.Rollback(ctx))
			newer = async(func() error { return e.guard.Update(e.ctx(34), resource, e.write(ctx, "B")) })
			e.awaitWaiting(1)
			return e.write(ctx, "A")(tx)
		}))
		require.NoError(t, await(t, newer))
		require.Equal(t, "B", e.writer())
	})
}
