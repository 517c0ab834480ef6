package migrations_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// acquired is what fencepost.acquire returns.
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

// granted acquires, and expects to be granted.
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
	require.Eventually(t, func() bool {
		return get[bool](t, f, f, "SELECT expires_at < clock_timestamp() FROM fence.leases WHERE resource = $1", resource)
	}, patience, 5*time.Millisecond)
}

func TestAcquire(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	t.Run("grants what is free, at a number that starts at the clock", func(t *testing.T) {
		t.Parallel()
		before := get[int64](t, f, f, clock)
		n := f.granted(t, f, t.Name(), "a", time.Minute)
		require.GreaterOrEqual(t, n, before)
		require.True(t, get[bool](t, f, f, "SELECT expires_at BETWEEN clock_timestamp() AND clock_timestamp() + interval '1 minute' FROM fence.leases WHERE resource = $1", t.Name()))
	})
	t.Run("refuses what another holds, and tells who and for how long", func(t *testing.T) {
		t.Parallel()
		f.granted(t, f, t.Name(), "worker-10", time.Hour)
		a, err := f.acquire(t.Context(), f, t.Name(), "worker-1", time.Minute)
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
		a, err := f.acquire(t.Context(), tx, t.Name(), "b", time.Minute)
		require.NoError(t, err)
		require.False(t, a.Granted)
		require.True(t, get[bool](t, f, tx, "SELECT pg_current_xact_id_if_assigned() IS NULL"))
	})
	// hazard R6
	t.Run("gives its holder the same number and the full ttl again", func(t *testing.T) {
		t.Parallel()
		n := f.granted(t, f, t.Name(), "a", time.Minute)
		require.Equal(t, n, f.granted(t, f, t.Name(), "a", time.Hour))
		require.True(t, get[bool](t, f, f, "SELECT expires_at > clock_timestamp() + interval '30 minutes' FROM fence.leases WHERE resource = $1", t.Name()))
	})
	t.Run("gives a new number to the holder whose lease has ended", func(t *testing.T) {
		t.Parallel()
		n := f.granted(t, f, t.Name(), "a", time.Millisecond)
		f.ended(t, t.Name())
		require.Greater(t, f.granted(t, f, t.Name(), "a", time.Minute), n)
	})
	t.Run("gives what has ended, or was released, to another at a higher number", func(t *testing.T) {
		t.Parallel()
		a := f.granted(t, f, t.Name(), "a", time.Millisecond)
		f.ended(t, t.Name())
		b := f.granted(t, f, t.Name(), "b", time.Minute)
		require.Greater(t, b, a)
		require.True(t, get[bool](t, f, f, "SELECT fence.release($1, 'b')", t.Name()))
		require.Greater(t, f.granted(t, f, t.Name(), "c", time.Minute), b)
	})
	t.Run("exceeds the lease's last number even above the clock", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, f.exec(t.Context(), f, "INSERT INTO fence.leases VALUES ($1, 900000000000000, '', '-infinity')", t.Name()))
		n := f.granted(t, f, t.Name(), "a", time.Minute)
		require.Contains(t, []int64{900_000_000_000_001, 900_000_000_000_002}, n, "or the next one, where the server was slow: one is burnt")
	})
	t.Run("lets one of many in", func(t *testing.T) {
		t.Parallel()
		grants := make(chan bool, 16)
		for i := range cap(grants) {
			go func() {
				a, _ := f.acquire(t.Context(), f, t.Name(), string(rune('a'+i)), time.Minute)
				grants <- a.Granted
			}()
		}
		n := 0
		for range cap(grants) {
			if <-grants {
				n++
			}
		}
		require.Equal(t, 1, n)
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

func TestRenew(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	renew := func(t *testing.T, holder string) bool {
		t.Helper()
		return get[bool](t, f, f, "SELECT renewed FROM fence.renew($1, $2, '1 hour')", t.Name(), holder)
	}
	t.Run("makes a lease last, at its number", func(t *testing.T) {
		t.Parallel()
		n := f.granted(t, f, t.Name(), "a", time.Minute)
		require.True(t, renew(t, "a"))
		require.True(t, get[bool](t, f, f, "SELECT expires_at > clock_timestamp() + interval '30 minutes' FROM fence.leases WHERE resource = $1", t.Name()))
		require.Equal(t, n, f.granted(t, f, t.Name(), "a", time.Minute))
	})
	// hazard R7
	t.Run("compares the whole holder", func(t *testing.T) {
		t.Parallel()
		f.granted(t, f, t.Name(), "worker-10", time.Minute)
		for _, holder := range []string{"worker-1", "worker-100", "WORKER-10", "worker-10 "} {
			require.False(t, renew(t, holder))
			require.False(t, get[bool](t, f, f, "SELECT fence.release($1, $2)", t.Name(), holder))
		}
		require.True(t, renew(t, "worker-10"))
	})
	// hazard L4
	t.Run("never acquires", func(t *testing.T) {
		t.Parallel()
		require.False(t, renew(t, "a"), "never held")
		f.granted(t, f, t.Name(), "a", time.Minute)
		require.True(t, get[bool](t, f, f, "SELECT fence.release($1, 'a')", t.Name()))
		require.False(t, renew(t, "a"), "released")
		f.granted(t, f, t.Name(), "a", time.Millisecond)
		f.ended(t, t.Name())
		require.False(t, renew(t, "a"), "ended, though nobody took it")
		f.granted(t, f, t.Name(), "b", time.Minute)
		require.False(t, renew(t, "a"), "taken")
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
	t.Run("is true once", func(t *testing.T) {
		t.Parallel()
		f.granted(t, f, t.Name(), "a", time.Minute)
		require.True(t, release(t, f))
		require.False(t, release(t, f))
		require.Equal(t, "", get[string](t, f, f, "SELECT holder FROM fence.leases WHERE resource = $1", t.Name()))
	})
	t.Run("is false for a lease that has ended", func(t *testing.T) {
		t.Parallel()
		f.granted(t, f, t.Name(), "a", time.Millisecond)
		f.ended(t, t.Name())
		require.False(t, release(t, f))
	})
	t.Run("does not wait for the disk when it is alone", func(t *testing.T) {
		t.Parallel()
		f.granted(t, f, t.Name(), "a", time.Minute)
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
		f.granted(t, tx, t.Name(), "a", time.Minute)
		require.Equal(t, "on", get[string](t, f, tx, "SHOW synchronous_commit"))
		require.True(t, release(t, tx))
		require.Equal(t, "on", get[string](t, f, tx, "SHOW synchronous_commit"))
	})
	t.Run("does not make the acquisition after it less durable", func(t *testing.T) {
		t.Parallel()
		tx := f.begin(t, "")
		release(t, tx)
		f.granted(t, tx, t.Name(), "b", time.Minute)
		require.Equal(t, "on", get[string](t, f, tx, "SHOW synchronous_commit"))
	})
}
