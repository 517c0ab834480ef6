package migrations_test

import (
	"context"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
)

// hazard G8
func TestEvict(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	require.NoError(t, f.exec(ctx, f, "CREATE TABLE fence.ledger (line text)"))
	evict := func(t *testing.T, number int64) int {
		t.Helper()
		return get[int](t, f, f, "SELECT fence.evict($1, $2)", t.Name(), number)
	}
	succeed := func(t *testing.T) error {
		return f.exec(ctx, f, "SELECT fence.admit($1, 6, 'b', 100)", t.Name())
	}
	// raises admits numbers in a transaction, the first of several before it.
	raises := func(t *testing.T, in db, numbers []int64) {
		for i, number := range numbers {
			on := in
			if i == 0 && len(numbers) > 1 {
				on = f
			}
			require.NoError(t, f.admit(ctx, on, t.Name(), number, "a"))
		}
	}
	for name, pause := range map[string]func(*testing.T, *pgx.Conn){
		"a holder who is paused in its transaction": func(*testing.T, *pgx.Conn) {},
		"a holder who is paused in COPY":            func(t *testing.T, conn *pgx.Conn) { pausedCopy(t, f, conn) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, f.admit(ctx, f, t.Name(), 5, "a"))
			pause(t, f.writer(t, t.Name(), 5, "a"))

			require.Equal(t, "55P03", code(succeed(t)), "the twin: who only waits does not get in")
			require.Equal(t, 1, evict(t, 6))
			pgtest.Await(t, func() bool { return succeed(t) == nil })
			require.Zero(t, get[int](t, f, f, "SELECT count(*) FROM fence.ledger"), "what the evicted one had written is gone")
		})
	}
	for name, raise := range map[string][]int64{
		"the first mark":                      {4},
		"a mark":                              {3, 4},
		"a mark, and is admitted again":       {3, 4, 4},
		"a mark twice":                        {3, 4, 5},
		"a mark, though it had the older one": {3, 3, 4},
	} {
		t.Run("a holder who is paused in COPY, and raises "+name, func(t *testing.T) {
			t.Parallel()
			conn := f.conn(t)
			require.NoError(t, f.exec(ctx, conn, "BEGIN ISOLATION LEVEL READ COMMITTED"))
			raises(t, conn, raise)
			pausedCopy(t, f, conn)

			require.Equal(t, "55P03", code(succeed(t)), "the twin: who only waits does not get in")
			require.Zero(t, evict(t, raise[len(raise)-1]), "its own token is not older")
			require.Equal(t, 1, evict(t, 6))
			pgtest.Await(t, func() bool { return succeed(t) == nil })
		})
	}
	t.Run("a holder who is paused in COPY, and has minted", func(t *testing.T) {
		t.Parallel()
		conn := f.conn(t)
		require.NoError(t, f.exec(ctx, conn, "BEGIN ISOLATION LEVEL READ COMMITTED"))
		minted := get[int64](t, f, conn, "SELECT fence.mint($1, 'a')", t.Name())
		pausedCopy(t, f, conn)
		require.Zero(t, evict(t, minted))
		require.Equal(t, 1, evict(t, minted+1))
		pgtest.Await(t, func() bool { return succeed(t) == nil })
	})
	for name, raise := range map[string][]int64{
		"spares who raises the first mark":                 {7},
		"spares who raises a mark":                         {5, 7},
		"spares who raises a mark and is admitted again":   {5, 7, 7},
		"spares who raises to the very token that evicts":  {5, 6},
		"spares who raises, though it had the older token": {5, 5, 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tx := f.begin(t, pgx.ReadCommitted)
			raises(t, tx, raise)
			require.Zero(t, evict(t, 6))
			require.NoError(t, tx.Commit(ctx))
			n, _ := f.mark(t, t.Name())
			require.Equal(t, raise[len(raise)-1], n)
		})
	}
	t.Run("spares a session with the exclusive lock and no published number", func(t *testing.T) {
		t.Parallel()
		tx := f.begin(t, pgx.ReadCommitted)
		require.NoError(t, f.exec(ctx, tx, "SELECT pg_advisory_xact_lock(fence.lock_key($1))", t.Name()))
		require.Zero(t, evict(t, 6))
		require.NoError(t, tx.Commit(ctx))
	})
	t.Run("compares the number of this resource, whatever else the session raises", func(t *testing.T) {
		t.Parallel()
		tx := f.begin(t, pgx.ReadCommitted)
		require.NoError(t, f.admit(ctx, tx, t.Name()+"/other", 4, "b"))
		require.NoError(t, f.admit(ctx, tx, t.Name(), 7, "b"))
		require.Zero(t, evict(t, 6))
		require.NoError(t, tx.Commit(ctx))
	})
	t.Run("spares the writers of the mark and of newer ones", func(t *testing.T) {
		t.Parallel()
		tx := f.begin(t, pgx.ReadCommitted)
		require.NoError(t, f.admit(ctx, f, t.Name(), 6, "b"))
		require.NoError(t, f.admit(ctx, tx, t.Name(), 6, "b"))
		require.Zero(t, evict(t, 5))
		require.Zero(t, evict(t, 6))
		require.Zero(t, get[int](t, f, f, "SELECT fence.evict($1, NULL)", t.Name()))
		require.NoError(t, tx.Commit(ctx))
	})
	t.Run("spares waiting sessions, which are admitted", func(t *testing.T) {
		t.Parallel()
		waiting := f.begin(t, pgx.ReadCommitted)
		require.NoError(t, f.admit(ctx, f, t.Name(), 5, "a"))
		f.writer(t, t.Name(), 5, "a")
		wait := pgtest.Later(t, func() error { return f.admit(ctx, waiting, t.Name(), 7, "c") })
		f.blocked(t, waiting.Conn())
		require.Equal(t, 1, evict(t, 6))
		require.NoError(t, wait())
	})
	t.Run("spares other resources and other schemas", func(t *testing.T) {
		t.Parallel()
		other := newFence(t)
		require.NoError(t, f.admit(ctx, f, t.Name()+"/other", 5, "a"))
		require.NoError(t, f.admit(ctx, f.begin(t, pgx.ReadCommitted), t.Name()+"/other", 5, "a"))
		require.NoError(t, other.admit(ctx, other, t.Name(), 5, "a"))
		require.NoError(t, other.admit(ctx, other.begin(t, pgx.ReadCommitted), t.Name(), 5, "a"))
		require.Zero(t, evict(t, 6))
	})
	t.Run("spares its own session", func(t *testing.T) {
		t.Parallel()
		tx := f.begin(t, pgx.ReadCommitted)
		require.NoError(t, f.admit(ctx, f, t.Name(), 5, "a"))
		require.NoError(t, f.admit(ctx, tx, t.Name(), 5, "a"))
		require.Zero(t, get[int](t, f, tx, "SELECT fence.evict($1, 6)", t.Name()))
	})
}

// pausedCopy leaves conn inside COPY FROM STDIN. The server counts it as active, so a
// limit on idle transactions has no effect. It ends with conn.
func pausedCopy(t *testing.T, f fence, conn *pgx.Conn) {
	t.Helper()
	require.NoError(t, f.exec(t.Context(), conn, "INSERT INTO fence.ledger VALUES ('first')"))
	input, stop := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = conn.PgConn().CopyFrom(context.WithoutCancel(t.Context()), input, f.sql("COPY fence.ledger FROM STDIN"))
	}()
	t.Cleanup(func() { stop.Close(); <-ended })
	pgtest.Await(t, func() bool {
		return get[bool](t, f, f, "SELECT state = 'active' AND coalesce(wait_event, '') = 'ClientRead' FROM pg_stat_activity WHERE pid = $1", conn.PgConn().PID())
	})
}

// A session that is admitted under a raised mark between evict's two reads is not on its
// list. The twin reads the mark first, and ends the current writer's session.
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
	// Unchanged, but the read takes as long as the test lasts.
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
			gate, evictor := f.begin(t, ""), f.conn(t)
			require.NoError(t, f.exec(ctx, gate, "SELECT pg_advisory_xact_lock(hashtextextended('gate of ' || $1, 0))", t.Name()))
			require.NoError(t, f.admit(ctx, f, t.Name(), 5, "a"))
			older := f.writer(t, t.Name(), 5, "a")

			ended := -1
			wait := pgtest.Later(t, func() error {
				return evictor.QueryRow(ctx, f.sql("SELECT fence."+function+"($1, 6)"), t.Name()).Scan(&ended)
			})
			f.blocked(t, evictor)
			pid := older.PgConn().PID()
			require.NoError(t, older.Close(context.WithoutCancel(ctx)))
			pgtest.Await(t, func() bool {
				return get[int](t, f, f, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid) == 0
			})
			require.NoError(t, f.admit(ctx, f, t.Name(), 6, "b"))
			f.writer(t, t.Name(), 6, "b")
			require.NoError(t, gate.Commit(ctx))

			require.NoError(t, wait())
			require.Equal(t, ends, ended)
		})
	}
}
