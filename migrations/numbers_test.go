package migrations_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
)

// hazard P1
func TestNumbersRiseOverSessions(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	require.NoError(t, f.exec(t.Context(), f, "CREATE SEQUENCE fence.naive CACHE 10"))
	draw := func(t *testing.T, sequence string) (drawn []int64) {
		t.Helper()
		first, second := f.conn(t), f.conn(t)
		for range 3 {
			for _, conn := range []*pgx.Conn{first, second} {
				drawn = append(drawn, get[int64](t, f, conn, "SELECT nextval($1::text::regclass)", f.sql(sequence)))
			}
		}
		return drawn
	}
	t.Run("in the order they were drawn in", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []int64{1, 2, 3, 4, 5, 6}, draw(t, "fence.numbers"))
	})
	t.Run("the twin's cache makes them fall", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []int64{1, 11, 2, 12, 3, 13}, draw(t, "fence.naive"))
	})
	t.Run("and the sequence never starts again", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "1 999999999999999 1 1 f", get[string](t, f, f,
			"SELECT concat_ws(' ', seqmin, seqmax, seqincrement, seqcache, seqcycle) FROM pg_sequence WHERE seqrelid = $1::text::regclass", f.sql("fence.numbers")))
	})
}

// hazard P2
func TestNumbersAreDrawnUnderTheLeasesLock(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	run := func(t *testing.T, call func(tx pgx.Tx) (int64, error)) (waited, meanwhile int64) {
		t.Helper()
		require.NoError(t, f.exec(t.Context(), f, "INSERT INTO fence.leases VALUES ($1, 0, '', '-infinity')", t.Name()))
		letGo, tx := hold(t, f, t.Name()), f.begin(t, pgx.ReadCommitted)
		wait := pgtest.Later(t, func() (err error) {
			waited, err = call(tx)
			return err
		})
		f.blocked(t, tx.Conn())
		meanwhile = f.granted(t, f, t.Name()+"/meanwhile", "b", time.Hour)
		letGo(now(t, f, f))
		require.NoError(t, wait())
		require.NoError(t, tx.Commit(t.Context()))
		return waited, meanwhile
	}
	t.Run("so who waited has the higher one", func(t *testing.T) {
		t.Parallel()
		waited, meanwhile := run(t, func(tx pgx.Tx) (int64, error) {
			a, err := f.acquire(t.Context(), tx, t.Name(), "a", time.Hour)
			if err != nil {
				return 0, err
			}
			return *a.Number, nil
		})
		require.Greater(t, waited, meanwhile)
	})
	t.Run("the naive twin draws before it waits", func(t *testing.T) {
		t.Parallel()
		waited, meanwhile := run(t, func(tx pgx.Tx) (n int64, err error) {
			return n, tx.QueryRow(t.Context(), f.sql(`WITH drawn AS MATERIALIZED (SELECT greatest(nextval('fence.numbers'), fence.number_at(clock_timestamp())) AS n)
				SELECT n FROM drawn, LATERAL (SELECT FROM fence.leases WHERE resource = $1 AND n > 0 FOR UPDATE) l`), t.Name()).Scan(&n)
		})
		require.Less(t, waited, meanwhile)
	})
}

func TestNumbersAreExhausted(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	t.Run("if the lease had the last one", func(t *testing.T) {
		require.NoError(t, f.exec(t.Context(), f, "INSERT INTO fence.leases VALUES ($1, 999999999999999, '', '-infinity')", t.Name()))
		_, err := f.acquire(t.Context(), f, t.Name(), "a", time.Hour)
		refused(t, err, "ZF005", "")
		require.ErrorContains(t, err, "fencepost: numbers exhausted")
	})
	t.Run("if the sequence has none left", func(t *testing.T) {
		require.NoError(t, f.exec(t.Context(), f, "SELECT setval($1::text::regclass, 999999999999999)", f.sql("fence.numbers")))
		_, err := f.acquire(t.Context(), f, t.Name(), "a", time.Hour)
		require.Equal(t, "2200H", code(err), "in PostgreSQL's own words")
	})
}

const clock = "SELECT floor(extract(epoch FROM clock_timestamp()) * 100000)::bigint"

func TestMint(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	mint := func(t *testing.T, on db, holder string) int64 {
		t.Helper()
		return get[int64](t, f, on, "SELECT fence.mint($1, $2)", t.Name(), holder)
	}
	// hazard R12
	t.Run("starts at the clock, in units of 10 µs", func(t *testing.T) {
		t.Parallel()
		before := get[int64](t, f, f, clock)
		n := mint(t, f, "a")
		require.GreaterOrEqual(t, n, before)
		require.LessOrEqual(t, n, get[int64](t, f, f, clock))
	})
	t.Run("raises the mark above what was", func(t *testing.T) {
		t.Parallel()
		const high = 900_000_000_000_000
		require.NoError(t, f.admit(ctx, f, t.Name(), high, "a"))
		require.Equal(t, int64(high+1), mint(t, f, "b"))
		require.Equal(t, int64(high+2), mint(t, f, "b"))
		n, h := f.mark(t, t.Name())
		require.Equal(t, int64(high+2), n)
		require.Equal(t, "b", h)
		refused(t, f.admit(ctx, f, t.Name(), high+1, "b"), "ZF001", "900000000000002 b")
	})
	t.Run("counts as an admission", func(t *testing.T) {
		t.Parallel()
		tx := f.begin(t, pgx.ReadCommitted)
		n := mint(t, tx, "a")
		require.Equal(t, "\n"+f.schema+"/"+t.Name()+"\n", get[string](t, f, tx, "SELECT current_setting('fencepost.admitted')"))
		require.NoError(t, f.admit(ctx, tx, t.Name(), n, "a"))
	})
	t.Run("waits for older writers, and mints above what they left", func(t *testing.T) {
		t.Parallel()
		const high = 900_000_000_000_000
		older, newer := f.begin(t, pgx.ReadCommitted), f.begin(t, pgx.ReadCommitted)
		require.NoError(t, f.admit(ctx, older, t.Name(), high, "a"))
		var n int64
		wait := pgtest.Later(t, func() error {
			return newer.QueryRow(ctx, f.sql("SELECT fence.mint($1, 'b')"), t.Name()).Scan(&n)
		})
		f.blocked(t, newer.Conn())
		require.NoError(t, older.Commit(ctx))
		require.NoError(t, wait())
		require.Equal(t, int64(high+1), n)
	})
	// hazard P3
	// hazard G26
	t.Run("is durable under every synchronous_commit", func(t *testing.T) {
		t.Parallel()
		for own, want := range map[string]string{"off": "on", "local": "on", "remote_write": "on", "on": "on", "remote_apply": "remote_apply"} {
			tx := f.begin(t, pgx.ReadCommitted)
			require.NoError(t, f.exec(ctx, tx, "SET LOCAL synchronous_commit = "+own))
			mint(t, tx, "a")
			require.Equal(t, want, get[string](t, f, tx, "SHOW synchronous_commit"))
			require.NoError(t, tx.Rollback(ctx))
		}
	})
	t.Run("refuses if fifteen digits are used up", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, f.admit(ctx, f, t.Name(), 999_999_999_999_999, "a"))
		err := f.exec(ctx, f, "SELECT fence.mint($1, 'b')", t.Name())
		refused(t, err, "ZF005", "")
		require.ErrorContains(t, err, "fencepost: numbers exhausted")
	})
	t.Run("refuses a holder that is none", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "23514", code(f.exec(ctx, f, "SELECT fence.mint($1, '')", t.Name())))
		require.Equal(t, "23502", code(f.exec(ctx, f, "SELECT fence.mint($1, NULL)", t.Name())))
	})
}

// hold locks a lease's row in another transaction. end releases it after a time on the
// server's clock, and returns when that was.
func hold(t *testing.T, f fence, resource string) (end func(after time.Time) time.Time) {
	t.Helper()
	tx := f.begin(t, pgx.ReadCommitted)
	require.NoError(t, f.exec(t.Context(), tx, "SELECT FROM fence.leases WHERE resource = $1 FOR UPDATE", resource))
	return func(after time.Time) time.Time {
		t.Helper()
		pgtest.Await(t, func() bool { return now(t, f, f).After(after) })
		at := now(t, f, f)
		require.NoError(t, tx.Commit(t.Context()))
		return at
	}
}

func now(t *testing.T, f fence, on db) time.Time {
	t.Helper()
	return get[time.Time](t, f, on, "SELECT clock_timestamp()")
}

func expiry(t *testing.T, f fence, resource string) time.Time {
	t.Helper()
	return get[time.Time](t, f, f, "SELECT expires_at FROM fence.leases WHERE resource = $1", resource)
}

// hazard P5
func TestAcquireThatWaitedLongerThanItsTTL(t *testing.T) {
	t.Parallel()
	const ttl = 100 * time.Millisecond
	f := newFence(t)
	run := func(t *testing.T, call func(tx pgx.Tx) error) (end time.Time) {
		t.Helper()
		f.granted(t, f, t.Name(), "before", time.Hour)
		require.True(t, get[bool](t, f, f, "SELECT fence.release($1, 'before')", t.Name()))
		letGo, tx := hold(t, f, t.Name()), f.begin(t, pgx.ReadCommitted)
		wait := pgtest.Later(t, func() error { return call(tx) })
		f.blocked(t, tx.Conn())
		end = letGo(now(t, f, f).Add(ttl))
		require.NoError(t, wait())
		require.NoError(t, tx.Commit(t.Context()))
		return end
	}
	t.Run("has the full ttl from the grant, and returns how long it waited", func(t *testing.T) {
		t.Parallel()
		var a acquired
		end := run(t, func(tx pgx.Tx) (err error) {
			a, err = f.acquire(t.Context(), tx, t.Name(), "a", ttl)
			return err
		})
		require.True(t, a.Granted)
		require.GreaterOrEqual(t, a.Waited, ttl)
		require.False(t, expiry(t, f, t.Name()).Before(end.Add(ttl)))
	})
	t.Run("the naive twin's lease has ended before the grant", func(t *testing.T) {
		t.Parallel()
		end := run(t, func(tx pgx.Tx) error {
			return f.exec(t.Context(), tx, "UPDATE fence.leases SET holder = 'a', expires_at = statement_timestamp() + $2 WHERE resource = $1", t.Name(), ttl)
		})
		require.True(t, expiry(t, f, t.Name()).Before(end))
	})
}

// hazard P5
func TestRenewThatWaitedUntilTheLeaseEnded(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	t.Run("renews nothing", func(t *testing.T) {
		t.Parallel()
		require.False(t, renewedLate(t, f, "SELECT renewed FROM fence.renew($1, 'a', $2)"))
	})
	t.Run("the naive twin reads the clock before it waits", func(t *testing.T) {
		t.Parallel()
		require.True(t, renewedLate(t, f, `UPDATE fence.leases SET expires_at = clock_timestamp() + $2::interval
			WHERE resource = $1 AND holder = 'a' AND expires_at > clock_timestamp() RETURNING true`))
		require.True(t, expiry(t, f, t.Name()).Before(now(t, f, f)), "until a time that is past")
	})
}

// renewedLate tries to renew a lease whose row is locked until it has ended.
func renewedLate(t *testing.T, f fence, statement string) (renewed bool) {
	t.Helper()
	for ttl := 200 * time.Millisecond; ; ttl *= 2 {
		f.granted(t, f, t.Name(), "a", ttl)
		letGo, tx := hold(t, f, t.Name()), f.begin(t, pgx.ReadCommitted)
		wait := pgtest.Later(t, func() error {
			err := tx.QueryRow(t.Context(), f.sql(statement), t.Name(), time.Millisecond).Scan(&renewed)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			return err
		})
		ends := expiry(t, f, t.Name())
		pgtest.Await(t, func() bool {
			return f.waits(t, tx.Conn()) || now(t, f, f).After(ends)
		})
		alive := now(t, f, f).Before(ends) // or the machine was too slow: try again
		letGo(ends)
		require.NoError(t, wait())
		require.NoError(t, tx.Commit(t.Context()))
		if alive {
			pgtest.Await(t, func() bool { return now(t, f, f).After(ends.Add(time.Millisecond)) })
			return renewed
		}
	}
}

// hazard P4
func TestLeaseEndsForTransactionsThatAreOlder(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	old := f.begin(t, pgx.ReadCommitted)
	require.NoError(t, f.exec(t.Context(), old, "SELECT 1")) // now() does not change from here on
	n := f.granted(t, f, "account/42", "a", time.Millisecond)
	f.ended(t, "account/42")

	require.True(t, get[bool](t, f, old, "SELECT expires_at > now() FROM fence.leases WHERE resource = 'account/42'"),
		"the twin: by now() the lease has not ended")
	require.False(t, get[bool](t, f, old, "SELECT renewed FROM fence.renew('account/42', 'a', '1 hour')"))
	require.False(t, get[bool](t, f, old, "SELECT fence.release('account/42', 'a')"))
	require.Greater(t, f.granted(t, old, "account/42", "b", time.Hour), n)
	require.NoError(t, old.Rollback(t.Context()))
}
