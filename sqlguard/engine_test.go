package sqlguard_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/engine"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
)

// stubs makes a server reply to version() like CockroachDB, whose advisory locks were
// stubs: they are granted, and exclude nothing.
const stubs = `SET allow_system_table_mods = on;
	ALTER FUNCTION pg_catalog.version() RENAME TO version_was;
	CREATE FUNCTION pg_catalog.version() RETURNS text LANGUAGE sql STABLE AS
	  $$ SELECT 'CockroachDB CCL v25.4.14 (x86_64-pc-linux-gnu, built 2026/07/01 12:00:00, go1.23.12)' $$;
	ALTER FUNCTION pg_catalog.pg_advisory_xact_lock(bigint) RENAME TO xact_lock_was;
	CREATE FUNCTION pg_catalog.pg_advisory_xact_lock(bigint) RETURNS void LANGUAGE sql AS '';
	ALTER FUNCTION pg_catalog.pg_advisory_xact_lock_shared(bigint) RENAME TO xact_lock_shared_was;
	CREATE FUNCTION pg_catalog.pg_advisory_xact_lock_shared(bigint) RETURNS void LANGUAGE sql AS '';
	ALTER FUNCTION pg_catalog.pg_try_advisory_xact_lock_shared(bigint) RENAME TO try_xact_lock_shared_was;
	CREATE FUNCTION pg_catalog.pg_try_advisory_xact_lock_shared(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true'`

// newLookAlike returns an env on its own server, which imitates another engine.
func newLookAlike(t *testing.T, becomes string) *env {
	t.Helper()
	server := testenv.OwnPostgres(t)
	e := envOn(t, server.URL())
	e.exec("ALTER TABLE accounts ADD last_token bigint, ADD last_holder text")
	e.exec(becomes)
	e.pool.Reset() // a session has the settings of becomes, and caches the functions that it has called
	return e
}

// over returns a pool of one connection to the env's server.
func (e *env) over(mode pgx.QueryExecMode) *pgxpool.Pool {
	e.t.Helper()
	return client(e.t, e.pool.Config().ConnString(), mode, 1)
}

// hazard G28
func TestAnEngineThatIsNotKnownToFence(t *testing.T) {
	t.Parallel()
	e := newLookAlike(t, stubs)
	t.Run("the twin trusts it, and a stale write is applied", func(t *testing.T) {
		g := e.with(func(g *sqlguard.Guard) { g.DangerouslyTrustEngine = true })
		require.NoError(t, g.Admit(e.bounded(), tokenOf(33)))
		require.NoError(t, g.Update(e.ctx(33), resource, func(tx pgx.Tx) error {
			require.NoError(t, g.Admit(e.bounded(), tokenOf(34)), "no lock keeps it waiting")
			require.NoError(t, g.Update(e.ctx(34), resource, e.write(e.ctx(34), "34")))
			return e.write(e.ctx(33), "33, late")(tx)
		}))
		require.Equal(t, "33, late", e.writer(), "the twin must be corrupted")
		require.Equal(t, "34 h34", e.mark(resource))
		e.exec("DELETE FROM marks")
		e.exec("UPDATE accounts SET writer = ''")
	})
	for _, mode := range modes {
		t.Run("is refused at every door in mode "+mode.String(), func(t *testing.T) {
			pool := e.over(mode)
			conn := acquire(t, pool)
			for _, db := range []sqlguard.DB{conn, conn.Conn(), wrapper{conn.Conn()}} {
				refusedBy(t, e, e.by(db))
			}
			conn.Release()
			refusedBy(t, e, e.by(pool))
			require.Zero(t, pool.Stat().AcquiredConns())
			require.Equal(t, int64(1), pool.Stat().NewConnsCount(), "no refusal costs a connection")
			joined(t, e, pool)
		})
	}
	t.Run("is reported once a call in report-only mode, and written", func(t *testing.T) {
		g, seen := e.reporting(e.over(pgx.QueryExecModeExec))
		for name, door := range doors(e, g) {
			*seen = nil
			require.NoError(t, door(e.ctx(33), name), name)
			require.Equal(t, name, e.writer())
			calls := map[string]int{"On.CopyFrom": 2, "Admit, then write": 2}[name]
			require.Len(t, *seen, max(calls, 1), name)
			for _, err := range *seen {
				require.ErrorIs(t, err, guard.ErrUnfenced, name)
			}
		}
	})
}

// refusedBy tries every door of the guard. Each must apply nothing.
func refusedBy(t *testing.T, e *env, g *sqlguard.Guard) {
	t.Helper()
	e.exec("DELETE FROM marks")
	all := everyDoor(e, g)
	delete(all, "Table.Fence") // a condition in a statement of the caller's
	all["Mint"] = func(ctx context.Context, _ string) error {
		_, err := g.Mint(ctx, resource, "h")
		return err
	}
	for name, door := range all {
		err := door(e.ctx(33), "x")
		require.ErrorIs(t, err, guard.ErrUnfenced, "%s on %T", name, g.DB)
		var refusal *engine.Error
		require.ErrorAs(t, err, &refusal, name)
		require.Contains(t, refusal.Engine, "CockroachDB CCL v25.4.14", name)
		require.Equal(t, []error{guard.ErrUnfenced}, outcomes(err), name)
		require.False(t, guard.IsRefusal(err), "it says nothing of the token: %s", name)
	}
	require.Empty(t, e.writer())
	require.Empty(t, e.mark(resource))
}

// joined ignores the error of everything that admits inside a transaction.
func joined(t *testing.T, e *env, pool *pgxpool.Pool) {
	t.Helper()
	ctx := e.ctx(33)
	for name, admit := range map[string]func(tx pgx.Tx) error{
		"Join": func(tx pgx.Tx) error { return e.guard.Join(ctx, tx, resource) },
		"On": func(tx pgx.Tx) error {
			_, err := e.by(tx).On(resource).Exec(ctx, "SELECT 1")
			return err
		},
		"Mint": func(tx pgx.Tx) error { _, err := e.guard.MintTx(ctx, tx, resource, "h"); return err },
		"Table": func(tx pgx.Tx) error {
			return e.table(e.by(tx)).Update(ctx, 42, rowguard.Set{"writer": "x"})
		},
	} {
		tx, err := pool.Begin(ctx)
		require.NoError(t, err)
		require.NoError(t, e.write(ctx, "before")(tx))
		require.ErrorIs(t, admit(tx), guard.ErrUnfenced, name)
		require.Equal(t, "25P02", outcomeCode(e.write(ctx, "after")(tx)), name)
		require.ErrorIs(t, tx.Commit(ctx), pgx.ErrTxCommitRollback, name)
		require.Empty(t, e.writer(), name)
	}
	// A nested Update rolls back to its savepoint, as for a stale token.
	tx, err := pool.Begin(ctx)
	require.NoError(t, err)
	nested := e.by(tx)
	require.ErrorIs(t, nested.Update(ctx, resource, e.write(ctx, "nested")), guard.ErrUnfenced)
	require.NoError(t, tx.Commit(ctx))
	require.Empty(t, e.writer())
}

// hazard G28
func TestStressAClusterOfWriters(t *testing.T) {
	t.Parallel()
	e := newLookAlike(t, `INSERT INTO pg_catalog.pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
		SELECT 99999, 'spock', 10, oid, false, '5.0' FROM pg_catalog.pg_namespace WHERE nspname = 'public'`)
	pool := e.over(pgx.QueryExecModeCacheStatement)
	g := e.by(pool)
	for range 2 {
		_, err := g.On(resource).Exec(e.ctx(33), e.sql("UPDATE accounts SET writer = 'x'"))
		require.ErrorIs(t, err, guard.ErrUnfenced)
		require.ErrorContains(t, err, "with the extension spock: it replicates between nodes that all write")
	}
	require.Empty(t, e.writer())
	g.DangerouslyTrustEngine = true
	_, err := g.On(resource).Exec(e.ctx(33), e.sql("UPDATE accounts SET writer = 'one node'"))
	require.NoError(t, err)
	require.Equal(t, "one node", e.writer())
}

// The query costs one round trip, before the first batch of a connection.
func TestTheEngineIsAskedOncePerConnection(t *testing.T) { askedOnce(t, modes[:1]) }

func TestStressTheEngineIsAskedOncePerConnectionInEveryMode(t *testing.T) { askedOnce(t, modes) }

func askedOnce(t *testing.T, modes []pgx.QueryExecMode) {
	t.Parallel()
	inEveryMode(t, modes, func(t *testing.T, mode pgx.QueryExecMode) {
		e := newEnv(t)
		e.admitted(33)
		e.exec("SELECT " + e.schema + ".add_mark_columns('accounts'::text::regclass)")
		e.exec("UPDATE accounts SET last_token = 33, last_holder = 'h33'")
		first := func(name string, trust bool) (first, later int64) {
			pool, w := wired(t, 1, inMode(mode))
			g := e.with(func(g *sqlguard.Guard) { g.DB, g.DangerouslyTrustEngine = pool, trust })
			all := everyDoor(e, g)
			require.NoError(t, pool.Ping(t.Context()))
			before := w.unasked()
			require.NoError(t, all[name](e.ctx(33), "x"), name)
			first = w.unasked() - before
			return first, w.during(func() { require.NoError(t, all[name](e.ctx(33), "x"), name) })
		}
		for _, name := range []string{"On.Exec", "On.SendBatch", "Update", "Admit, then write", "Join", "Table.Update", "Table.Upsert"} {
			trusting, later := first(name, true)
			asking, laterToo := first(name, false)
			require.Equal(t, trusting+1, asking, name)
			require.Equal(t, later, laterToo, name)
		}
	})
	inEnv(t, "or once for each DB of another type", func(t *testing.T, e *env) {
		pool, w := wired(t, 1)
		conn := acquire(t, pool)
		g := e.by(wrapper{conn.Conn()})
		e.admitted(33)
		admit := func() { require.NoError(t, g.Admit(e.bounded(), tokenOf(33))) }
		require.Equal(t, int64(1), w.during(admit))
		g.DB = opaque{conn.Conn(), nil}
		require.Equal(t, int64(2), w.during(admit), "the query is sent each time for a value that cannot be compared")
	})
}

// opaque is a DB that cannot be compared with another.
type opaque struct {
	*pgx.Conn
	_ []int
}

// If the connection ends during the query, nothing is applied.
func TestAConnectionThatEndsUnderTheQuestion(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.admitted(33)
	for name := range doors(e, e.guard) {
		pool, _ := wired(t, 1)
		conn := acquire(t, pool)
		pid := conn.Conn().PgConn().PID()
		conn.Release()
		e.endSession(pid)
		err := doors(e, e.by(pool))[name](e.ctx(33), "x")
		require.Error(t, err, name)
		require.NotErrorIs(t, err, guard.ErrUnknown, name)
		require.NotErrorIs(t, err, guard.ErrUnfenced, name)
		require.NoError(t, doors(e, e.by(pool))[name](e.ctx(33), "again"), name)
		require.Equal(t, "again", e.writer(), name)
		e.exec("UPDATE accounts SET writer = ''")
	}
}
