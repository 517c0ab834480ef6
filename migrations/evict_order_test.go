package migrations_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whoever is admitted under a raised mark between evict's two looks is not on
// its list. The twin looks at the mark first, and ends the rightful writer.
func TestEvictListsTheHoldersBeforeItReadsTheMark(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	require.NoError(t, f.exec(ctx, f, `
		CREATE FUNCTION fence.naive(r text, t bigint) RETURNS integer LANGUAGE plpgsql AS $$
		BEGIN
			IF fence.mark_number(r) >= t THEN RETURN 0; END IF;
			RETURN (SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid <> pg_backend_pid()
				AND mode = 'ShareLock' AND (classid::bigint << 32 | objid::bigint) = fence.lock_key(r));
		END $$`))
	// As it is, but the read takes as long as the test wants it to.
	require.NoError(t, f.exec(ctx, f, `
		CREATE OR REPLACE FUNCTION fence.mark_number(r text) RETURNS bigint LANGUAGE plpgsql AS $$
		DECLARE n bigint := (SELECT number FROM fence.marks WHERE resource = r);
		BEGIN
			PERFORM pg_advisory_xact_lock(hashtextextended('gate of ' || r, 0));
			RETURN n;
		END $$`))
	for function, ends := range map[string]int{"evict": 0, "naive": 1} {
		t.Run(function, func(t *testing.T) {
			t.Parallel()
			gate, older, evictor, newer := f.begin(t, ""), f.conn(t), f.conn(t), f.conn(t)
			require.NoError(t, f.exec(ctx, gate, "SELECT pg_advisory_xact_lock(hashtextextended('gate of ' || $1, 0))", t.Name()))
			require.NoError(t, f.admit(ctx, f, t.Name(), 5, "a"))
			require.NoError(t, f.exec(ctx, older, "BEGIN ISOLATION LEVEL READ COMMITTED"))
			require.NoError(t, f.admit(ctx, older, t.Name(), 5, "a"))

			ended := -1
			wait := later(t, func() error {
				return evictor.QueryRow(ctx, f.sql("SELECT fence."+function+"($1, 6)"), t.Name()).Scan(&ended)
			})
			f.blocked(t, evictor)
			pid := older.PgConn().PID()
			require.NoError(t, older.Close(context.WithoutCancel(ctx)))
			require.Eventually(t, func() bool {
				return get[int](t, f, f, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid) == 0
			}, patience, 5*time.Millisecond)
			require.NoError(t, f.admit(ctx, f, t.Name(), 6, "b"))
			require.NoError(t, f.exec(ctx, newer, "BEGIN ISOLATION LEVEL READ COMMITTED"))
			require.NoError(t, f.admit(ctx, newer, t.Name(), 6, "b"))
			require.NoError(t, gate.Commit(ctx))

			require.NoError(t, wait())
			require.Equal(t, ends, ended)
		})
	}
}
