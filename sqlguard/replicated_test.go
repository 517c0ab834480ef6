package sqlguard_test

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
)

// replicated is an env on a primary whose commits wait for a standby that is away. What is
// committed there is lost when the standby is promoted.
type replicated struct {
	*env
	t                *testing.T
	primary, standby *testenv.PostgresServer
}

// newReplicated returns servers on which 33 is the mark, and account 42 has 100.
func newReplicated(t *testing.T) replicated {
	t.Helper()
	primary := testenv.OwnPostgres(t)
	standby := primary.Standby()
	e := envOn(t, primary.URL())
	e.admitted(33)
	primary.CaughtUp()
	standby.CutOff()
	e.exec("ALTER SYSTEM SET synchronous_standby_names = '*'")
	e.exec("SELECT pg_reload_conf()")
	e.untilCommitsWait()
	return replicated{e, t, primary, standby}
}

// failover returns the env on the standby, in place of its primary.
func (r replicated) failover() *env {
	r.primary.Kill()
	r.pool.Close()
	r.standby.Promote()
	promoted := *r.env
	promoted.pool = pgtest.Pool(r.t, r.standby.URL(), nil)
	return &promoted
}

// ends calls f with a context, and whenever its session waits for the standby, calls how
// with the session's process, once for each element. Before the last one the context ends,
// so that no further attempt is made. It returns the error of f.
func (r replicated) ends(f func(ctx context.Context) error, how ...string) error {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.ctx(33))
	defer cancel()
	call := async(func() error { return f(ctx) })
	last := uint32(0)
	for i, end := range how {
		var next []uint32
		r.await("another session waits for a standby, or the call has returned", func() bool {
			next = slices.DeleteFunc(r.standbyWaits(), func(pid uint32) bool { return pid == last })
			return len(next) == 1 || len(call) > 0
		})
		if len(next) != 1 { // the call did not wait
			return <-call
		}
		if i == len(how)-1 {
			cancel()
		}
		last = next[0]
		r.exec("SELECT "+end+"($1)", last)
	}
	return await(r.t, call)
}

// A COMMIT that is ended while it waits for its standby becomes visible. A guard that sees
// it must not report it as applied: the standby may be promoted without it.
//
// hazard P9
func TestAWriteThatNoStandbyHasIsNotReportedAsApplied(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	const terminated, cancelled = "pg_terminate_backend", "pg_cancel_backend"
	local := r.with(func(g *sqlguard.Guard) {
		g.DB = pgtest.Pool(t, r.primary.URL(), func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["synchronous_commit"] = "local" })
	})
	simple := r.with(func(g *sqlguard.Guard) {
		g.DB = pgtest.Pool(t, r.primary.URL(), func(c *pgxpool.Config) {
			c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
			c.ConnConfig.RuntimeParams["client_min_messages"] = "error"
		})
	})
	waiting := func(ctx context.Context) func(pgx.Tx) error {
		return func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SET LOCAL synchronous_commit = on"); err != nil {
				return err
			}
			return r.addOne(ctx)(tx)
		}
	}
	for name, c := range map[string]struct {
		guard *sqlguard.Guard
		how   []string
	}{
		"ended, and the guard's wait too":                      {r.guard, []string{terminated, terminated}},
		"ended, and the guard's wait is cancelled":             {r.guard, []string{terminated, cancelled}},
		"ended, and the guard's wait is cancelled twice":       {simple, []string{terminated, cancelled, cancelled}},
		"ended, and the session's own commits need no standby": {local, []string{terminated, terminated}},
	} {
		before := r.balance()
		err := r.ends(func(ctx context.Context) error { return c.guard.Update(ctx, resource, waiting(ctx)) }, c.how...)
		require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "%s: %v", name, err)
		require.ErrorContains(t, err, "not known whether the standbys have it", name)
		require.Equal(t, before+1, r.balance(), "%s: the twin sees a write that was applied", name)
	}

	for name, g := range map[string]*sqlguard.Guard{"in a session": r.guard, "in a session whose own commits need no standby": local} {
		unit := guard.Unit{Key: name}
		once := func(ctx context.Context) error {
			_, err := g.Once(ctx, resource, unit, func(tx pgx.Tx) ([]byte, error) { return []byte("first"), waiting(ctx)(tx) })
			return err
		}
		before := r.balance()
		require.Equal(t, []error{guard.ErrUnknown}, outcomes(r.ends(once, terminated, terminated)), name)
		require.Equal(t, before+1, r.balance(), name)
		err := r.ends(once, terminated)
		require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "a repeat %s: %v", name, err)
		require.Equal(t, before+1, r.balance(), "the unit was found")
	}

	claim := async(func() error {
		_, err := r.pool.Exec(t.Context(), "SELECT fencepost.admit($1, 34, 'h34')", resource)
		return err
	})
	r.exec("SELECT pg_cancel_backend($1)", r.awaitStandbyWait())
	require.NoError(t, await(t, claim), "the server reports success")
	err := r.ends(func(ctx context.Context) error {
		_, err := r.guard.Once(ctx, resource, guard.Unit{Key: "in a session"}, mustNotRun)
		return err
	}, terminated)
	require.ErrorContains(t, err, "whether unit in a session of account/42 was applied before its token became stale")
	require.Empty(t, outcomes(err))

	require.Equal(t, int64(106), r.balance())
	require.Equal(t, int64(100), r.failover().balance(), "the promoted standby has none of them")
}

// hazard P9
func TestEvictionSparesACommitThatWaitsForAStandby(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	ctx, cancel := context.WithCancel(r.ctx(33))
	defer cancel()
	call := async(func() error { return r.guard.Update(ctx, resource, r.addOne(t.Context())) })
	pid := r.awaitStandbyWait()
	require.Zero(t, query[int](r.env, "SELECT fencepost.evict($1, 34)", resource))
	require.Equal(t, pid, r.awaitStandbyWait(), "it is not ended")
	require.Equal(t, int64(100), r.balance(), "not visible")

	t.Run("the twin ends every writer: the write is visible, and the standby lacks it", func(t *testing.T) {
		r.exec("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock'")
		r.gone(pid)
		cancel()
		require.Equal(t, int64(101), r.balance())
		require.Equal(t, int64(100), r.failover().balance())
		require.Equal(t, []error{guard.ErrUnknown}, outcomes(await(t, call)))
	})
}

// When the standby is there, a repeat of a unit that was found waits and returns the result.
func TestARepeatWaitsForTheStandby(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	once := func(ctx context.Context) error {
		_, err := r.guard.Once(ctx, resource, payment, r.pay("first"))
		return err
	}
	require.Equal(t, []error{guard.ErrUnknown}, outcomes(r.ends(once, "pg_terminate_backend", "pg_terminate_backend")))
	call := async(func() error { return once(r.ctx(33)) })
	r.awaitStandbyWait()
	r.exec("ALTER SYSTEM RESET synchronous_standby_names")
	r.exec("SELECT pg_reload_conf()")
	require.NoError(t, await(t, call))
	require.Equal(t, int64(101), r.balance())
}

// A COMMIT that waits for a synchronous standby is in the log, and neither visible nor
// replicated. Its session is not ended, since it would then return without the standby.
func TestACommitThatWaitsForAStandbyIsInProgress(t *testing.T) {
	t.Parallel()
	server := testenv.OwnPostgres(t)
	e := envOn(t, server.URL())
	e.admitted(33)
	for _, setting := range []string{"synchronous_standby_names = 'missing'", "synchronous_commit = local"} {
		e.exec("ALTER SYSTEM SET " + setting)
	}
	e.exec("SELECT pg_reload_conf()")
	e.await("the settings", func() bool {
		return query[string](e, "SELECT current_setting('synchronous_standby_names') || current_setting('synchronous_commit')") == "missinglocal"
	})
	e.untilCommitsWait()
	released := make(chan struct{})
	var waited, waits uint32
	var balance int64
	fault := &commitFault{then: func() {
		waited = e.awaitStandbyWait()
		go func() {
			defer close(released)
			e.await("a question", func() bool {
				return query[int](e, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%end_transaction%' AND pid <> pg_backend_pid()") > 0
			})
			waits, balance = e.awaitStandbyWait(), e.balance()
			e.exec("ALTER SYSTEM RESET synchronous_standby_names")
			e.exec("SELECT pg_reload_conf()")
		}()
	}}
	g := e.with(func(g *sqlguard.Guard) { g.DB = pgtest.Pool(t, server.URL(), fault.breaks) })
	ctx := e.ctx(33)
	err := g.Update(ctx, resource, fault.after(func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL synchronous_commit = on"); err != nil {
			return err
		}
		return e.addOne(ctx)(tx)
	}))
	<-released
	require.Equal(t, waited, waits, "the session was not ended")
	require.Equal(t, int64(100), balance)
	require.NoError(t, err)
	require.Equal(t, int64(101), e.balance())
}

// untilCommitsWait returns when synchronous commits wait for a standby: once the checkpointer
// has read the settings, which the sessions may do before it.
func (e *env) untilCommitsWait() {
	e.await("a commit that waits", func() (waits bool) {
		commit := async(func() error {
			_, err := e.pool.Exec(e.t.Context(), "BEGIN; SET LOCAL synchronous_commit = on; SELECT pg_logical_emit_message(true, '', ''); COMMIT", pgx.QueryExecModeSimpleProtocol)
			return err
		})
		e.await("the commit waits, or has ended", func() bool {
			waits = len(e.standbyWaits()) == 1
			return waits || len(commit) > 0
		})
		if waits {
			e.exec("SELECT pg_cancel_backend($1)", e.awaitStandbyWait())
		}
		require.NoError(e.t, await(e.t, commit))
		return waits
	})
}

// standbyWaits returns the processes of the sessions that wait for a synchronous standby. A
// session that waits is missing for a moment whenever a signal wakes it.
func (e *env) standbyWaits() (pids []uint32) {
	e.t.Helper()
	rows, err := e.pool.Query(e.t.Context(), "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
	require.NoError(e.t, err)
	pids, err = pgx.CollectRows(rows, pgx.RowTo[uint32])
	require.NoError(e.t, err)
	return pids
}

// awaitStandbyWait returns the process of the one session that waits.
func (e *env) awaitStandbyWait() (pid uint32) {
	e.t.Helper()
	e.await("a session waits for a standby", func() bool {
		pids := e.standbyWaits()
		if len(pids) == 1 {
			pid = pids[0]
		}
		return len(pids) == 1
	})
	return pid
}
