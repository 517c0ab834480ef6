package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// Where it raises no mark, admit locks first and looks then, each in a statement
// of its own. The twin does both in one, whose snapshot is older than the lock:
// a raise that is committed in between is not seen. The gate is in the key of
// the lock, and keeps only A waiting.
//
// hazard G1
// hazard G23
func TestAdmitLooksBehindTheLock(t *testing.T) {
	t.Parallel()
	for name, twin := range map[string]bool{"as it is": false, "in one statement, the twin": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFence(t)
			ctx := t.Context()
			require.NoError(t, f.exec(ctx, f, `
				ALTER FUNCTION fence.lock_key(text) RENAME TO key_at_once;
				CREATE FUNCTION fence.lock_key(r text) RETURNS bigint LANGUAGE plpgsql AS $$
				BEGIN
					IF current_setting('application_name') = 'A' THEN
						PERFORM pg_advisory_xact_lock(fence.key_at_once('the gate'));
					END IF;
					RETURN fence.key_at_once(r);
				END $$`))
			if twin {
				f.mutate(t, "admit",
					"pg_catalog.pg_try_advisory_xact_lock_shared(", "0 <> pg_catalog.length('' || ",
					f.sql("fence.lock_key(r)) END)"), "'yes') END)",
					"m.number OPERATOR(pg_catalog.>=) t;", f.sql("m.number OPERATOR(pg_catalog.>=) t AND pg_catalog.pg_try_advisory_xact_lock_shared(fence.lock_key(r));"))
			}
			require.NoError(t, f.admit(ctx, f, "account/42", 5, "a"))
			gate, a := f.begin(t, ""), f.conn(t)
			require.NoError(t, f.exec(ctx, gate, "SELECT pg_advisory_xact_lock(fence.key_at_once('the gate'))"))
			require.NoError(t, f.exec(ctx, a, "SET application_name = 'A'"))
			wait := later(t, func() error { return f.exec(ctx, a, "SELECT fence.admit('account/42', 5, 'a', -1)") })
			f.blocked(t, a)
			require.NoError(t, f.admit(ctx, f, "account/42", 6, "b"))
			require.NoError(t, gate.Commit(ctx))
			if twin {
				require.NoError(t, wait(), "the twin must let the stale token in")
			} else {
				refused(t, wait(), "ZF001", "6 b")
			}
		})
	}
}

// Who only looks does not wait for one who raises, and keeps nobody from raising.
func TestAdmitDoesNotWaitToLook(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	claimed := func(on db, number int64, holder, resource string) error {
		return f.exec(ctx, on, "SELECT fence.admit($1, $2, $3, -1)", resource, number, holder)
	}
	t.Run("the stale are refused while somebody raises", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, f.admit(ctx, f, t.Name(), 5, "a"))
		require.NoError(t, f.admit(ctx, f.begin(t, pgx.ReadCommitted), t.Name(), 6, "b"))
		refused(t, claimed(f, 4, "z", t.Name()), "ZF001", "5 a")
		refused(t, claimed(f, 5, "z", t.Name()), "ZF002", "5 a")
		require.Equal(t, "ZF004", code(claimed(f, 7, "c", t.Name())))
	})
	t.Run("peers queue behind one who waits to raise, who is not starved", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, f.admit(ctx, f, t.Name(), 5, "a"))
		older, newer, peer := f.begin(t, pgx.ReadCommitted), f.begin(t, pgx.ReadCommitted), f.begin(t, pgx.ReadCommitted)
		require.NoError(t, claimed(older, 5, "a", t.Name()))
		raise := later(t, func() error { return f.admit(ctx, newer, t.Name(), 6, "b") })
		f.blocked(t, newer.Conn())
		late := later(t, func() error { return claimed(peer, 5, "a", t.Name()) })
		f.blocked(t, peer.Conn())
		require.NoError(t, older.Commit(ctx))
		require.NoError(t, raise())
		require.NoError(t, newer.Commit(ctx))
		refused(t, late(), "ZF001", "6 b")
	})
	t.Run("a token that was refused, or must be claimed first, holds nothing", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, f.admit(ctx, f, t.Name(), 5, "a"))
		tx := f.begin(t, pgx.ReadCommitted)
		for number, sqlstate := range map[int64]string{4: "ZF001", 6: "ZF004"} {
			savepoint, err := tx.Begin(ctx)
			require.NoError(t, err)
			require.Equal(t, sqlstate, code(claimed(savepoint, number, "b", t.Name())))
			require.NoError(t, savepoint.Rollback(ctx))
		}
		require.NoError(t, f.admit(ctx, f, t.Name(), 7, "c"))
	})
}
