package migrations_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
)

// mutate changes a function: it replaces pieces of its text that must exist, in pairs of
// old and new.
func (f fence) mutate(t *testing.T, function string, oldnew ...string) {
	t.Helper()
	text := get[string](t, f, f, "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = $1 AND pronamespace = to_regnamespace($2)", function, f.schema)
	for i := 0; i < len(oldnew); i += 2 {
		require.Contains(t, text, oldnew[i], "the mutant no longer fits %s", function)
		text = strings.ReplaceAll(text, oldnew[i], oldnew[i+1])
	}
	_, err := f.Exec(t.Context(), text)
	require.NoError(t, err)
}

// pruning is prune with one piece replaced.
type pruning struct{ name, piece, by string }

var (
	asMigrated   = pruning{name: "as it is"}
	withoutFloor = pruning{"without the floor", `UPDATE "fence".floor f SET number = cutoff WHERE f.number < cutoff;`, ""}
	withoutLock  = pruning{"without the lock", `NOT pg_try_advisory_xact_lock("fence".lock_key(r))`, "false"}
)

func (p pruning) put(t *testing.T, f fence) {
	t.Helper()
	if p != asMigrated {
		f.mutate(t, "prune", strings.ReplaceAll(p.piece, `"fence"`, pgx.Identifier{f.schema}.Sanitize()), p.by)
	}
}

// asleep has a session admit (5, a) for account/42. The session has read that there is
// neither mark nor floor, and is paused before it requests the lock. Meanwhile (6, b) is
// admitted.
func asleep(t *testing.T, f fence) (wake func(), wait func() error, waits func() bool) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, f.exec(ctx, f, `
		ALTER FUNCTION fence.lock_exclusive(text, integer) RENAME TO lock_at_once;
		CREATE FUNCTION fence.lock_exclusive(r text, bound integer) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			IF current_setting('application_name') = 'sleeper' THEN
				PERFORM pg_advisory_xact_lock(fence.lock_key('the gate'));
			END IF;
			PERFORM fence.lock_at_once(r, bound);
		END $$`))
	gate, sleeper := f.begin(t, ""), f.conn(t)
	require.NoError(t, f.exec(ctx, gate, "SELECT pg_advisory_xact_lock(fence.lock_key('the gate'))"))
	require.NoError(t, f.exec(ctx, sleeper, "SET application_name = 'sleeper'"))
	wait = pgtest.Later(t, func() error { return f.admit(ctx, sleeper, "account/42", 5, "a") })
	f.blocked(t, sleeper)
	require.NoError(t, f.admit(ctx, f, "account/42", 6, "b"))
	wake = func() { require.NoError(t, gate.Rollback(ctx)) }
	waits = func() bool { // it waits for the test's lock, the only one that it certainly has
		return get[bool](t, f, f, "SELECT coalesce(bool_or(granted AND locktype = 'advisory') AND bool_or(NOT granted), false) FROM pg_locks WHERE pid = $1", sleeper.PgConn().PID())
	}
	return wake, wait, waits
}

// hazard G21
func TestStaleTokenSleepsWhileItsMarkComesAndGoes(t *testing.T) {
	t.Parallel()
	for _, p := range []pruning{asMigrated, withoutFloor} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			f := newFence(t)
			p.put(t, f)
			wake, wait, _ := asleep(t, f)
			require.Equal(t, 1, f.prune(t, 10))
			wake()
			if p != asMigrated {
				require.NoError(t, wait(), "the twin shows nothing: it must admit the stale token")
				return
			}
			refused(t, wait(), "ZF001", "10 ")
			require.Zero(t, get[int](t, f, f, "SELECT count(*) FROM fence.marks"))
		})
	}
}

// hazard G21
func TestStaleTokenIsAdmittedWhileItsMarkIsPruned(t *testing.T) {
	t.Parallel()
	for _, p := range []pruning{asMigrated, withoutLock} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			f := newFence(t)
			p.put(t, f)
			wake, wait, waits := asleep(t, f)
			pruner := f.begin(t, pgx.ReadCommitted)
			require.Equal(t, 1, get[int](t, f, pruner, "SELECT fence.prune(10)"))
			wake()
			pgtest.Await(t, waits)
			require.NoError(t, pruner.Commit(t.Context()))
			if p != asMigrated {
				require.NoError(t, wait(), "the twin shows nothing: it must admit the stale token")
				n, _ := f.mark(t, "account/42")
				require.Equal(t, int64(5), n)
				return
			}
			refused(t, wait(), "ZF001", "10 ")
			require.Zero(t, get[int](t, f, f, "SELECT count(*) FROM fence.marks"))
		})
	}
}

// hazard G21
func TestStaleTokenAfterPrune(t *testing.T) {
	t.Parallel()
	f, naive := newFence(t), newFence(t)
	f.pruned(t)
	refused(t, f.admit(t.Context(), f, "account/42", 5, "a"), "ZF001", "10 ")

	withoutFloor.put(t, naive)
	require.NoError(t, naive.admit(t.Context(), naive, "account/42", 6, "b"))
	require.Equal(t, 1, naive.prune(t, 10))
	require.NoError(t, naive.admit(t.Context(), naive, "account/42", 5, "a"), "the twin shows nothing: it must admit the stale token")
}

// A writer whose own mark is pruned is refused, or gets a retryable error.
//
// hazard G21
func TestOwnMarkIsPruned(t *testing.T) {
	t.Parallel()
	f, twin := newFence(t), newFence(t)
	twin.mutate(t, "admit_slow", " FOR SHARE", "")
	own := func(t *testing.T, f fence) {
		f.empty(t)
		require.NoError(t, f.admit(t.Context(), f, "account/42", 5, "a"))
	}
	// pruneBeside prunes the mark while call waits for it.
	pruneBeside := func(t *testing.T, level pgx.TxIsoLevel, call string, end func(pruner pgx.Tx) error) error {
		own(t, f)
		tx, pruner := f.begin(t, level), f.begin(t, pgx.ReadCommitted)
		require.Equal(t, 1, get[int](t, f, pruner, "SELECT fence.prune(10)"))
		wait := pgtest.Later(t, func() error { return f.exec(t.Context(), tx, call) })
		f.blocked(t, tx.Conn())
		require.NoError(t, end(pruner))
		return wait()
	}
	commit := func(tx pgx.Tx) error { return tx.Commit(t.Context()) }
	rollback := func(tx pgx.Tx) error { return tx.Rollback(t.Context()) }
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		t.Run("since the snapshot of "+string(level), func(t *testing.T) {
			ctx := t.Context()
			for _, f := range []fence{f, twin} {
				own(t, f)
				tx := f.begin(t, level)
				require.Equal(t, 1, get[int](t, f, tx, "SELECT count(*) FROM fence.marks"))
				require.Equal(t, 1, f.prune(t, 10))
				require.NoError(t, f.admit(ctx, f, "account/42", 11, "b"))
				err := f.admit(ctx, tx, "account/42", 5, "a")
				if f == twin {
					require.NoError(t, err, "the twin shows nothing: it must admit the stale token")
					continue
				}
				require.Equal(t, "40001", code(err))
			}
		})
		t.Run("while it waits under "+string(level), func(t *testing.T) {
			require.Equal(t, "40001", code(pruneBeside(t, level, admit, commit)))
		})
		t.Run("before the snapshot of "+string(level), func(t *testing.T) {
			f.pruned(t)
			refused(t, f.admit(t.Context(), f.begin(t, level), "account/42", 5, "a"), "ZF001", "10 ")
			refused(t, f.admit(t.Context(), f.begin(t, level), "account/42", 10, "a"), "ZF004", "")
		})
		t.Run("not, if it was admitted under "+string(level), func(t *testing.T) {
			own(t, f)
			ctx := t.Context()
			tx := f.begin(t, level)
			require.NoError(t, f.admit(ctx, tx, "account/42", 5, "a"))
			require.Zero(t, f.prune(t, 10))
			require.NoError(t, f.admit(ctx, tx, "account/42", 5, "a"))
			require.NoError(t, tx.Commit(ctx))
		})
	}
	for function, call := range map[string]string{"admit": admit, "admit_slow": "SELECT fence.admit_slow('account/42', 5, 'a', 0)"} {
		t.Run("while it waits in "+function, func(t *testing.T) {
			refused(t, pruneBeside(t, pgx.ReadCommitted, call, commit), "ZF001", "10 ")
		})
		t.Run("not, if the pruning is rolled back while it waits in "+function, func(t *testing.T) {
			require.NoError(t, pruneBeside(t, pgx.ReadCommitted, call, rollback))
		})
	}
}

// The grants in the comments of 00009_prune.sql and 00010_admin.sql, one each.
func TestRolesOfOperators(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ grant, may, mayNot string }{
		"who prunes":  {"EXECUTE ON FUNCTION fence.prune(bigint, integer)", "SELECT fence.prune(fence.number_at(now() - interval '30 days'))", "SELECT fence.reset('account/1', 1)"},
		"who resets":  {"EXECUTE ON FUNCTION fence.reset(text, bigint)", "SELECT fence.reset('account/1', 1)", "SELECT fence.prune(1)"},
		"who watches": {"SELECT ON fence.marks, fence.floor", "SELECT * FROM fence.marks, fence.floor", "SELECT fence.prune(1)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFence(t)
			f.marked(t, 1)
			conn := asRole(t, f, "GRANT USAGE ON SCHEMA "+f.schema)
			require.NoError(t, f.exec(t.Context(), f, "GRANT "+c.grant+" TO "+f.schema+"_role"))
			require.NoError(t, f.exec(t.Context(), conn, c.may))
			require.Equal(t, "42501", code(f.exec(t.Context(), conn, c.mayNot)))
			require.Equal(t, "42501", code(f.exec(t.Context(), conn, "DELETE FROM fence.marks")))
			require.Equal(t, "42501", code(f.exec(t.Context(), conn, "UPDATE fence.floor SET number = 0")))
		})
	}
}
