package migrations_test

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
)

// acquired is the result of fencepost.acquire.
type acquired struct {
	Granted   bool
	Number    *int64
	Holder    string
	Remaining *time.Duration
	Waited    time.Duration
}

func (f fence) acquire(ctx context.Context, on db, resource, holder string, ttl time.Duration) (a acquired, err error) {
	row := on.QueryRow(ctx, f.sql("SELECT granted, number, holder, remaining, waited FROM fence.acquire($1, $2, $3)"), resource, holder, ttl)
	return a, row.Scan(&a.Granted, &a.Number, &a.Holder, &a.Remaining, &a.Waited)
}

// granted acquires, and requires a grant.
func (f fence) granted(t *testing.T, on db, resource, holder string, ttl time.Duration) int64 {
	t.Helper()
	a, err := f.acquire(t.Context(), on, resource, holder, ttl)
	require.NoError(t, err)
	require.True(t, a.Granted)
	require.Nil(t, a.Remaining)
	require.Equal(t, holder, a.Holder)
	return *a.Number
}

// ended waits until the server's clock has passed the lease's expiry.
func (f fence) ended(t *testing.T, resource string) {
	t.Helper()
	pgtest.Await(t, func() bool {
		return get[bool](t, f, f, "SELECT expires_at < clock_timestamp() FROM fence.leases WHERE resource = $1", resource)
	})
}

// The suite of package pgtoken has the rules of every issuer, and calls all functions but acquire.
func TestAcquire(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	t.Run("refuses a held resource, and returns its holder and the remaining time", func(t *testing.T) {
		t.Parallel()
		f.granted(t, f, t.Name(), "worker-10", time.Hour)
		a, err := f.acquire(t.Context(), f, t.Name(), "worker-1", time.Hour)
		require.NoError(t, err)
		require.False(t, a.Granted)
		require.Nil(t, a.Number)
		require.Equal(t, "worker-10", a.Holder)
		require.Greater(t, *a.Remaining, 30*time.Minute)
		require.LessOrEqual(t, *a.Remaining, time.Hour)
	})
	t.Run("refuses without writing or waiting", func(t *testing.T) {
		t.Parallel()
		f.granted(t, f, t.Name(), "a", time.Hour)
		locked := f.begin(t, "")
		require.NoError(t, f.exec(t.Context(), locked, "SELECT FROM fence.leases WHERE resource = $1 FOR UPDATE", t.Name()))
		tx := f.begin(t, "")
		a, err := f.acquire(t.Context(), tx, t.Name(), "b", time.Hour)
		require.NoError(t, err)
		require.False(t, a.Granted)
		require.True(t, get[bool](t, f, tx, "SELECT pg_current_xact_id_if_assigned() IS NULL"))
	})
	// hazard R6
	t.Run("gives its holder the same number and the full ttl again", func(t *testing.T) {
		t.Parallel()
		n := f.granted(t, f, t.Name(), "a", time.Hour)
		require.Equal(t, n, f.granted(t, f, t.Name(), "a", 3*time.Hour))
		require.True(t, get[bool](t, f, f, "SELECT expires_at > clock_timestamp() + interval '2 hours' FROM fence.leases WHERE resource = $1", t.Name()))
	})
	t.Run("gives a new number to the holder whose lease has ended", func(t *testing.T) {
		t.Parallel()
		n := f.granted(t, f, t.Name(), "a", time.Millisecond)
		f.ended(t, t.Name())
		require.Greater(t, f.granted(t, f, t.Name(), "a", time.Hour), n)
	})
	t.Run("exceeds the lease's last number even above the clock", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, f.exec(t.Context(), f, "INSERT INTO fence.leases VALUES ($1, 900000000000000, '', '-infinity')", t.Name()))
		n := f.granted(t, f, t.Name(), "a", time.Hour)
		require.Contains(t, []int64{900_000_000_000_001, 900_000_000_000_002}, n, "or the next one, where the server was slow: one is burnt")
	})
	t.Run("refuses what cannot be a lease", func(t *testing.T) {
		t.Parallel()
		for _, arguments := range []string{
			"'', 'a', '1 s'", "'x', '', '1 s'", "'x', 'a', '0'", "'x', 'a', '-1 s'", "NULL, 'a', '1 s'", "'x', NULL, '1 s'", "'x', 'a', NULL",
		} {
			require.Equal(t, "22023", code(f.exec(t.Context(), f, "SELECT fence.acquire("+arguments+")")), arguments)
			require.Equal(t, "22023", code(f.exec(t.Context(), f, "SELECT fence.renew("+arguments+")")), arguments)
		}
		require.Equal(t, "23514", code(f.exec(t.Context(), f, `SELECT fence.acquire(E'x\n', 'a', '1 s')`)))
		require.Equal(t, "23514", code(f.exec(t.Context(), f, `SELECT fence.acquire('x', E'a\n', '1 s')`)))
	})
}

func TestRelease(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	release := func(t *testing.T, on db) bool {
		t.Helper()
		return get[bool](t, f, on, "SELECT fence.release($1, 'a')", t.Name())
	}
	t.Run("does not wait for the disk when it is alone", func(t *testing.T) {
		t.Parallel()
		f.granted(t, f, t.Name(), "a", time.Hour)
		tx := f.begin(t, "")
		require.True(t, release(t, tx))
		require.Equal(t, "off", get[string](t, f, tx, "SHOW synchronous_commit"))
		require.NoError(t, tx.Commit(ctx))
	})
	// hazard P3
	t.Run("leaves the commit of an acquisition, or of other work, as it was", func(t *testing.T) {
		t.Parallel()
		tx := f.begin(t, "")
		require.NoError(t, f.exec(ctx, tx, "SET LOCAL synchronous_commit = off"))
		f.granted(t, tx, t.Name(), "a", time.Hour)
		require.Equal(t, "on", get[string](t, f, tx, "SHOW synchronous_commit"))
		require.True(t, release(t, tx))
		require.Equal(t, "on", get[string](t, f, tx, "SHOW synchronous_commit"))
	})
	t.Run("does not make the acquisition after it less durable", func(t *testing.T) {
		t.Parallel()
		tx := f.begin(t, "")
		release(t, tx)
		f.granted(t, tx, t.Name(), "b", time.Hour)
		require.Equal(t, "on", get[string](t, f, tx, "SHOW synchronous_commit"))
	})
}

// A caller that raises no mark makes admit lock first and read second, each in its own
// statement. The twin does both in one statement, whose snapshot is older than the lock,
// so a raise that is committed in between is not seen. The test blocks A on the key of
// the lock only.
//
// hazard G1 hazard G23
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
			wait := pgtest.Later(t, func() error { return f.exec(ctx, a, "SELECT fence.admit('account/42', 5, 'a', -1)") })
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

// A session that only reads the mark neither waits for one that raises it nor blocks it.
func TestAdmitDoesNotWaitToLook(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	claimed := func(on db, number int64, holder, resource string) error {
		return f.exec(ctx, on, "SELECT fence.admit($1, $2, $3, -1)", resource, number, holder)
	}
	t.Run("stale tokens are refused during a raise", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, f.admit(ctx, f, t.Name(), 5, "a"))
		require.NoError(t, f.admit(ctx, f.begin(t, pgx.ReadCommitted), t.Name(), 6, "b"))
		refused(t, claimed(f, 4, "z", t.Name()), "ZF001", "5 a")
		refused(t, claimed(f, 5, "z", t.Name()), "ZF002", "5 a")
		require.Equal(t, "ZF004", code(claimed(f, 7, "c", t.Name())))
	})
	t.Run("peers queue behind a writer that waits to raise, which is not starved", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, f.admit(ctx, f, t.Name(), 5, "a"))
		older, newer, peer := f.begin(t, pgx.ReadCommitted), f.begin(t, pgx.ReadCommitted), f.begin(t, pgx.ReadCommitted)
		require.NoError(t, claimed(older, 5, "a", t.Name()))
		raise := pgtest.Later(t, func() error { return f.admit(ctx, newer, t.Name(), 6, "b") })
		f.blocked(t, newer.Conn())
		late := pgtest.Later(t, func() error { return claimed(peer, 5, "a", t.Name()) })
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

// explaining returns a session that logs the plan of each statement inside its functions.
func (f fence) explaining(t *testing.T) (conn *pgx.Conn, said func() string) {
	t.Helper()
	var text strings.Builder
	conn = connected(t, func(config *pgx.ConnConfig) {
		config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { text.WriteString(n.Message) }
	})
	require.NoError(t, f.exec(t.Context(), conn, "LOAD 'auto_explain'"))
	for setting, value := range map[string]string{"log_min_duration": "0", "log_nested_statements": "on", "log_analyze": "on",
		"log_timing": "off", "log_level": "notice"} {
		require.NoError(t, f.exec(t.Context(), conn, "SELECT set_config('auto_explain.' || $1, $2, false)", setting, value))
	}
	return conn, func() string {
		defer text.Reset()
		return text.String()
	}
}

var (
	looked  = regexp.MustCompile(`actual rows=([0-9]+) loops=([0-9]+)`)
	removed = regexp.MustCompile(`Rows Removed by [^:]*: ([0-9]+)`)
)

// rows returns how many rows the steps of a plan have read.
func rows(t *testing.T, plan string) (n int) {
	t.Helper()
	number := func(text string) int {
		i, err := strconv.Atoi(text)
		require.NoError(t, err)
		return i
	}
	for _, step := range looked.FindAllStringSubmatch(plan, -1) {
		n += number(step[1]) * number(step[2])
	}
	for _, step := range removed.FindAllStringSubmatch(plan, -1) {
		n += number(step[1])
	}
	return n
}

// From the sixth call on, a connection plans a function's statements without their
// arguments.
func TestStressRenewAllDoesNotSlowDown(t *testing.T) {
	t.Parallel()
	const many = 4000
	f := newFence(t)
	conn, said := f.explaining(t)
	require.NoError(t, f.exec(t.Context(), f, "INSERT INTO fence.leases SELECT 'job/' || i, i, 'a', now() + interval '1 hour' FROM generate_series(1, $1::integer) i", many))
	require.NoError(t, f.exec(t.Context(), f, "INSERT INTO fence.leases SELECT 'other/' || i, i, 'a', now() + interval '1 hour' FROM generate_series(1, $1::integer) i", many))
	var took []time.Duration
	for call := range 10 {
		began := time.Now()
		verdicts := get[[]int64](t, f, conn, `SELECT fence.renew_all(array_agg('job/' || i), array_agg('a'::text), array_agg(3600000000))
			FROM generate_series(1, $1::integer) i`, many)
		took = append(took, time.Since(began))
		require.Len(t, verdicts, many+1)
		for _, verdict := range verdicts[1:] {
			require.Equal(t, int64(1), verdict)
		}
		plan := said()
		require.Contains(t, plan, "Update on leases", "the plans are not logged")
		require.False(t, strings.Contains(plan, "ANY ("), "call %d searches an array for each row", call+1)
		require.Less(t, rows(t, plan), 40*many, "call %d looks at more than its leases", call+1)
	}
	t.Log(took)
}
