package migrations_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// hold locks a lease's row in another transaction. end lets go of it when a
// moment of the server's clock has passed, and says when that was.
func hold(t *testing.T, f fence, resource string) (end func(after time.Time) time.Time) {
	t.Helper()
	tx := f.begin(t, pgx.ReadCommitted)
	require.NoError(t, f.exec(t.Context(), tx, "SELECT FROM fence.leases WHERE resource = $1 FOR UPDATE", resource))
	return func(after time.Time) time.Time {
		t.Helper()
		require.Eventually(t, func() bool { return now(t, f, f).After(after) }, patience, 5*time.Millisecond)
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
		f.granted(t, f, t.Name(), "before", time.Minute)
		require.True(t, get[bool](t, f, f, "SELECT fence.release($1, 'before')", t.Name()))
		letGo, tx := hold(t, f, t.Name()), f.begin(t, pgx.ReadCommitted)
		wait := later(t, func() error { return call(tx) })
		f.blocked(t, tx.Conn())
		end = letGo(now(t, f, f).Add(ttl))
		require.NoError(t, wait())
		require.NoError(t, tx.Commit(t.Context()))
		return end
	}
	t.Run("has the full ttl from when it got the lease, and says how long it waited", func(t *testing.T) {
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
	t.Run("the naive twin has ended before it was granted", func(t *testing.T) {
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
	t.Run("the naive twin looks at the clock before it waits", func(t *testing.T) {
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
		wait := later(t, func() error {
			err := tx.QueryRow(t.Context(), f.sql(statement), t.Name(), time.Millisecond).Scan(&renewed)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			return err
		})
		ends := expiry(t, f, t.Name())
		require.Eventually(t, func() bool {
			return f.waits(t, tx.Conn()) || now(t, f, f).After(ends)
		}, patience, time.Millisecond, "nobody waits")
		alive := now(t, f, f).Before(ends) // or a busy machine was too slow: once more
		letGo(ends)
		require.NoError(t, wait())
		require.NoError(t, tx.Commit(t.Context()))
		if alive {
			require.Eventually(t, func() bool { return now(t, f, f).After(ends.Add(time.Millisecond)) }, patience, time.Millisecond)
			return renewed
		}
	}
}

// hazard P4
func TestLeaseEndsForTransactionsThatAreOlder(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	old := f.begin(t, pgx.ReadCommitted)
	require.NoError(t, f.exec(t.Context(), old, "SELECT 1")) // now() stands still from here on
	n := f.granted(t, f, "account/42", "a", time.Millisecond)
	f.ended(t, "account/42")

	require.True(t, get[bool](t, f, old, "SELECT expires_at > now() FROM fence.leases WHERE resource = 'account/42'"),
		"the twin: by now() the lease has not ended")
	require.False(t, get[bool](t, f, old, "SELECT renewed FROM fence.renew('account/42', 'a', '1 hour')"))
	require.False(t, get[bool](t, f, old, "SELECT fence.release('account/42', 'a')"))
	require.Greater(t, f.granted(t, old, "account/42", "b", time.Minute), n)
	require.NoError(t, old.Rollback(t.Context()))
}
