package sqlguard_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/heard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

func TestOutcomesOfAStatementByItself(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run("an answer that is lost is unknown, and in truth applied, in mode "+mode.String(), func(t *testing.T) {
			t.Parallel()
			e := newRows(t)
			pool, arm := deaf(t, "applied", mode)
			accounts := e.table(e.with(func(g *sqlguard.Guard) { g.DB = pool }))
			require.NoError(t, accounts.Update(e.ctx(33), 42, someone))
			arm.Store(true)
			var h heard.Record
			ctx := h.Listen(e.ctx(33))
			var err error
			steps := during(&h, func() { err = accounts.Update(ctx, 42, sqlguard.Set{{"writer", "applied"}}) })
			require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "%v", err)
			require.Equal(t, []string{"begin", "unknown"}, steps)
			e.await("the write", func() bool { return e.writer() == "applied" })
		})
	}
	t.Run("a caller who has left before it was sent has sent nothing", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		ctx, leave := context.WithCancel(e.ctx(33))
		leave()
		err := e.accounts.Update(ctx, 42, someone)
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, outcomes(err))
		require.Equal(t, "1 h1", e.row())
	})
	t.Run("a caller who leaves while it waits does not know", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		tx := e.open(pgx.TxOptions{})
		require.NoError(t, e.write(t.Context(), "B")(tx))
		ctx, leave := context.WithCancel(e.ctx(33))
		late := async(func() error { return e.accounts.Update(ctx, 42, someone) })
		e.awaitWaiting(1)
		leave()
		require.Equal(t, []error{guard.ErrUnknown}, outcomes(await(t, late)))
	})
	t.Run("what pgx or the server say of the statement is an ordinary error", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		e.exec("ALTER TABLE accounts ADD twin bigint REFERENCES accounts DEFERRABLE INITIALLY DEFERRED")
		closed, _ := wired(t, 1)
		closed.Close()
		var pg *pgconn.PgError
		for name, err := range map[string]error{
			"an argument that cannot be encoded": e.accounts.Update(e.ctx(33), 42, sqlguard.Set{{"balance", struct{}{}}}),
			"a column that is not there":         e.accounts.Update(e.ctx(33), 42, sqlguard.Set{{"nowhere", 1}}),
			"a constraint at the commit":         e.accounts.Update(e.ctx(33), 42, sqlguard.Set{{"twin", 7}}),
			"a closed pool":                      e.table(&sqlguard.Guard{DB: closed}).Update(e.ctx(33), 42, someone),
			"a wrapper, an argument":             onWrapper(e).Update(e.ctx(33), 42, sqlguard.Set{{"balance", struct{}{}}}),
			"a wrapper, at the commit":           onWrapper(e).Update(e.ctx(33), 42, sqlguard.Set{{"twin", 7}}),
		} {
			require.Error(t, err, name)
			require.Empty(t, outcomes(err), "%s: %v", name, err)
		}
		require.ErrorAs(t, e.accounts.Update(e.ctx(33), 42, sqlguard.Set{{"twin", 7}}), &pg)
		require.Equal(t, "23503", pg.Code)
		require.Equal(t, "1 h1", e.row(), "nothing was applied")
	})
	t.Run("a session that was ended may have committed first", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		e.exec("CREATE FUNCTION " + e.schema + ".die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()), pg_sleep(60); RETURN NEW; END $$")
		e.exec("CREATE TRIGGER die BEFORE UPDATE ON accounts FOR EACH ROW EXECUTE FUNCTION " + e.schema + ".die()")
		require.Equal(t, []error{guard.ErrUnknown}, outcomes(e.accounts.Update(e.ctx(33), 42, someone)))
		require.Equal(t, []error{guard.ErrUnknown}, outcomes(onWrapper(e).Update(e.ctx(33), 42, someone)))
	})
	t.Run("a lease that is lost meanwhile decides nothing", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		tx := e.open(pgx.TxOptions{})
		require.NoError(t, e.write(t.Context(), "B")(tx))
		ctx, lose := e.leased(33)
		late := async(func() error { return e.accounts.Update(ctx, 42, someone) })
		e.awaitWaiting(1)
		lose(&token.LostError{Token: tokenOf(33)})
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, tx.Commit(t.Context()))
		require.NoError(t, await(t, late))
		require.Equal(t, "33 h33", e.row())
	})
}

// onWrapper is the table over a DB that has nothing but SendBatch.
func onWrapper(e rowsEnv) *sqlguard.Table {
	conn, err := e.pool.Acquire(e.t.Context())
	require.NoError(e.t, err)
	e.t.Cleanup(conn.Release)
	return e.table(e.with(func(g *sqlguard.Guard) { g.DB = wrapper{conn.Conn()} }))
}
