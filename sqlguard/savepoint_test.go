package sqlguard_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

// hazard G24
func TestAdmissionThatEndsTooSoon(t *testing.T) {
	t.Parallel()
	t.Run("joined behind a savepoint that is rolled back, the write is unguarded", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		e.admitted(33)
		tx, ctx := e.open(pgx.TxOptions{}), e.ctx(33)
		sp, err := tx.Begin(ctx)
		require.NoError(t, err)
		require.NoError(t, e.guard.Join(ctx, sp, resource))
		require.NoError(t, sp.Rollback(ctx))
		require.NoError(t, e.guard.Update(e.ctx(34), resource, e.write(ctx, "B")), "nobody is in any more")
		require.NoError(t, e.write(ctx, "A")(tx))
		require.NoError(t, tx.Commit(ctx))
		require.Equal(t, "A", e.writer(), "the twin must let the stale write in")
	})
	t.Run("joined before the savepoint, its rollback changes nothing", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
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
	t.Run("fn of an Update cannot roll back its admission, whatever it does with savepoints", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
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

// hazard G24
func TestStatementThatCommits(t *testing.T) {
	t.Parallel()
	// twoWrites commits between its writes and then waits for the test.
	twoWrites := func(e *env) {
		e.exec(`CREATE PROCEDURE ` + e.schema + `.two_writes() LANGUAGE plpgsql AS $$ BEGIN
			UPDATE accounts SET writer = 'A first' WHERE id = 42;
			COMMIT;
			PERFORM pg_advisory_xact_lock(hashtext('` + e.schema + `'));
			UPDATE accounts SET writer = 'A second' WHERE id = 42; END $$`)
	}
	t.Run("in the implicit transaction of a packet, what comes behind its COMMIT is unguarded", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		twoWrites(e)
		gate := e.open(pgx.TxOptions{})
		_, err := gate.Exec(t.Context(), "SELECT pg_advisory_xact_lock(hashtext($1))", e.schema)
		require.NoError(t, err)
		done := async(func() error {
			b := &pgx.Batch{}
			b.Queue("SELECT "+e.schema+".admit($1, $2, $3)", resource, 33, "h33")
			b.Queue("CALL " + e.schema + ".two_writes()")
			return e.pool.SendBatch(e.bounded(), b).Close()
		})
		e.inCommit()
		require.NoError(t, e.guard.Update(e.ctx(34), resource, e.write(t.Context(), "B")))
		require.NoError(t, gate.Rollback(t.Context()))
		require.NoError(t, await(t, done))
		require.Equal(t, "A second", e.writer(), "the twin must let the stale write in")
	})
	t.Run("behind a real BEGIN it may not commit", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		twoWrites(e)
		for _, mode := range modes {
			pool, w := wired(t, 1, inMode(mode))
			g := *e.guard
			g.DB = pool
			for _, statement := range []string{"CALL " + e.schema + ".two_writes()", "DO $$ BEGIN COMMIT; END $$"} {
				_, err := g.On(resource).Exec(e.ctx(33), statement)
				var pg *pgconn.PgError
				require.ErrorAs(t, err, &pg, mode)
				require.Equal(t, "2D000", pg.Code, mode)
				require.Empty(t, outcomes(err))
				require.NotErrorIs(t, err, guard.ErrStale)
			}
			require.Equal(t, int64(1), w.dials.Load())
		}
		require.Empty(t, e.writer())
	})
}
