package migrations_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
)

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
// server's clock.
func hold(t *testing.T, f fence, resource string) (end func(after time.Time)) {
	t.Helper()
	tx := f.begin(t, pgx.ReadCommitted)
	require.NoError(t, f.exec(t.Context(), tx, "SELECT FROM fence.leases WHERE resource = $1 FOR UPDATE", resource))
	return func(after time.Time) {
		t.Helper()
		pgtest.Await(t, func() bool { return now(t, f, f).After(after) })
		require.NoError(t, tx.Commit(t.Context()))
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
