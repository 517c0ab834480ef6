package migrations_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// mutate breaks a function: it replaces a piece of its text that must be there,
// pairs of old and new.
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

// pruning is prune with something of it replaced.
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

// asleep has a session admit (5, a) for account/42, which has read that there
// is neither mark nor floor, and goes to sleep before it asks for the lock.
// Meanwhile (6, b) is admitted.
func asleep(t *testing.T, f fence) (wake func(), wait func() error, waits func() bool) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, f.exec(ctx, f, `
		ALTER FUNCTION fence.lock_alone(text, integer) RENAME TO lock_at_once;
		CREATE FUNCTION fence.lock_alone(r text, bound integer) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			IF current_setting('application_name') = 'sleeper' THEN
				PERFORM pg_advisory_xact_lock(fence.lock_key('the gate'));
			END IF;
			PERFORM fence.lock_at_once(r, bound);
		END $$`))
	gate, sleeper := f.begin(t, ""), f.conn(t)
	require.NoError(t, f.exec(ctx, gate, "SELECT pg_advisory_xact_lock(fence.lock_key('the gate'))"))
	require.NoError(t, f.exec(ctx, sleeper, "SET application_name = 'sleeper'"))
	wait = later(t, func() error { return f.admit(ctx, sleeper, "account/42", 5, "a") })
	f.blocked(t, sleeper)
	require.NoError(t, f.admit(ctx, f, "account/42", 6, "b"))
	wake = func() { require.NoError(t, gate.Rollback(ctx)) }
	waits = func() bool { // behind the gate, which is the one lock that it has for certain
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
			require.Eventually(t, waits, patience, 5*time.Millisecond)
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
	f, naive := pruned(t), newFence(t)
	refused(t, f.admit(t.Context(), f, "account/42", 5, "a"), "ZF001", "10 ")

	withoutFloor.put(t, naive)
	require.NoError(t, naive.admit(t.Context(), naive, "account/42", 6, "b"))
	require.Equal(t, 1, naive.prune(t, 10))
	require.NoError(t, naive.admit(t.Context(), naive, "account/42", 5, "a"), "the twin shows nothing: it must admit the stale token")
}
