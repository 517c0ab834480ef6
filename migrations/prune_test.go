package migrations_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
)

func (f fence) floor(t *testing.T) int64 {
	t.Helper()
	return get[int64](t, f, f, "SELECT number FROM fence.floor")
}

// prune calls prune until it deletes nothing, and returns how many rows it deleted.
func (f fence) prune(t *testing.T, cutoff int64) (gone int) {
	t.Helper()
	for last := -1; last != 0; gone += last {
		last = get[int](t, f, f, "SELECT fence.prune($1)", cutoff)
	}
	return gone
}

// marked replaces all marks of the fence with (1, a) of account/1 to (n, a) of account/n.
func (f fence) marked(t *testing.T, n int) {
	t.Helper()
	f.empty(t)
	require.NoError(t, f.exec(t.Context(), f, "SELECT fence.admit('account/' || i, i, 'a') FROM generate_series(1, $1::integer) i", n))
}

// hazard G21
func TestPrune(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	t.Run("deletes what is below the cutoff, and raises the floor to it", func(t *testing.T) {
		f.marked(t, 9)
		require.Equal(t, 4, f.prune(t, 5))
		require.Equal(t, int64(5), f.floor(t))
		require.Equal(t, "5 6 7 8 9", get[string](t, f, f, "SELECT string_agg(number::text, ' ' ORDER BY number) FROM fence.marks"))
		require.Zero(t, f.prune(t, 5))
	})
	t.Run("raises the floor if there is nothing to delete", func(t *testing.T) {
		f.empty(t)
		require.Zero(t, f.prune(t, 5))
		require.Equal(t, int64(5), f.floor(t))
	})
	t.Run("never lowers the floor", func(t *testing.T) {
		f.pruned(t)
		for _, cutoff := range []int64{9, 0, -1} {
			require.Zero(t, f.prune(t, cutoff))
			require.Equal(t, int64(10), f.floor(t))
		}
	})
	t.Run("deletes in batches", func(t *testing.T) {
		f.marked(t, 9)
		for _, gone := range []int{3, 3, 2, 0} {
			require.Equal(t, gone, get[int](t, f, f, "SELECT fence.prune(9, 3)"))
			require.Equal(t, int64(9), f.floor(t), "the floor is there from the first batch on")
		}
	})
	t.Run("takes no more than its batch's locks", func(t *testing.T) {
		f.marked(t, 9)
		tx := f.begin(t, pgx.ReadCommitted)
		require.Equal(t, 3, get[int](t, f, tx, "SELECT fence.prune(9, 3)"))
		require.Equal(t, 3, get[int](t, f, tx, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"))
	})
	t.Run("refuses what is no batch", func(t *testing.T) {
		f.marked(t, 1)
		for _, most := range []any{0, -1, 1001, nil} {
			require.Equal(t, "22023", code(f.exec(t.Context(), f, "SELECT fence.prune(5, $1)", most)), "%v", most)
		}
		require.Zero(t, f.floor(t))
	})
	t.Run("refuses a cutoff above the clock, and takes the clock", func(t *testing.T) {
		f.marked(t, 1)
		ctx := t.Context()
		err := f.exec(ctx, f, "SELECT fence.prune(fence.number_at(clock_timestamp() + interval '1 hour'))")
		refused(t, err, "22023", "")
		require.ErrorContains(t, err, "fencepost: prune needs a cutoff that is not above the clock")
		require.Equal(t, "22023", code(f.exec(ctx, f, "SELECT fence.prune(NULL)")))
		require.Zero(t, f.floor(t))
		require.NoError(t, f.exec(ctx, f, "SELECT fence.prune(fence.number_at(clock_timestamp()))"))
		require.Positive(t, get[int64](t, f, f, "SELECT fence.mint('account/42', 'a') - (SELECT number FROM fence.floor)"), "a new token is locked out")
	})
	t.Run("takes a time as its number", func(t *testing.T) {
		f.empty(t)
		require.Equal(t, int64(170_000_000_012_345), get[int64](t, f, f, "SELECT fence.number_at(to_timestamp(1700000000.123456))"))
		require.Equal(t, int64(-1), get[int64](t, f, f, "SELECT fence.number_at('1969-12-31 23:59:59.999999Z')"))
		require.Nil(t, get[*int64](t, f, f, "SELECT fence.number_at(NULL)"))
		month := get[int64](t, f, f, "SELECT fence.number_at(now() - interval '30 days')")
		require.NoError(t, f.exec(t.Context(), f, "SELECT fence.prune(fence.number_at(now() - interval '30 days'))"))
		require.GreaterOrEqual(t, f.floor(t), month)
		require.LessOrEqual(t, f.floor(t), get[int64](t, f, f, "SELECT fence.number_at(now() - interval '30 days')"))
	})
}

// pruneNow prunes everything that is older than the current time.
func (f fence) pruneNow(t *testing.T) int {
	t.Helper()
	return f.prune(t, get[int64](t, f, f, "SELECT fence.number_at(clock_timestamp())"))
}

var withoutLeases = pruning{"without a look at the leases", "l.expires_at > clock_timestamp()", "false"}

// hazard G31
func TestPruneLeavesTheMarkOfAValidLease(t *testing.T) {
	t.Parallel()
	for _, p := range []pruning{asMigrated, withoutLeases} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			f := newFence(t)
			p.put(t, f)
			n := f.granted(t, f, "leader", "a", time.Hour)
			require.NoError(t, f.admit(t.Context(), f, "leader", n, "a"))
			if p != asMigrated {
				require.Positive(t, f.pruneNow(t))
				refused(t, f.admit(t.Context(), f, "leader", n, "a"), "ZF001", fmt.Sprintf("%d ", f.floor(t)))
				return
			}
			require.Zero(t, f.pruneNow(t))
			require.NoError(t, f.admit(t.Context(), f, "leader", n, "a"), "its lease is valid")
			require.True(t, get[bool](t, f, f, "SELECT fence.release('leader', 'a')"))
			require.Equal(t, 2, f.pruneNow(t), "the mark, and the row of its lease")
			refused(t, f.admit(t.Context(), f, "leader", n, "a"), "ZF001", fmt.Sprintf("%d ", f.floor(t)))
		})
	}
}

// For a free resource only the last number is kept, and the floor replaces it.
func TestPruneForgetsFreeLeases(t *testing.T) {
	t.Parallel()
	const many = 2_500
	f := newFence(t)
	ctx := t.Context()
	require.NoError(t, f.exec(ctx, f, "INSERT INTO fence.leases SELECT 'job/' || i, i, '', '-infinity' FROM generate_series(1, $1::integer) i", many))
	require.NoError(t, f.exec(ctx, f, "INSERT INTO fence.leases SELECT 'dead/' || i, i, 'a', now() FROM generate_series(1, 100) i"))
	f.granted(t, f, "live", "a", time.Hour)
	require.NoError(t, f.exec(ctx, f, "INSERT INTO fence.leases VALUES ('awaited', 1, '', '-infinity', true)"))
	locked := f.begin(t, pgx.ReadCommitted)
	require.NoError(t, f.exec(ctx, locked, "INSERT INTO fence.leases VALUES ('new', 1, '', '-infinity')"))
	require.NoError(t, f.exec(ctx, locked, "SELECT FROM fence.leases WHERE resource = 'job/7' FOR NO KEY UPDATE"))
	gone, calls := 0, 0
	for {
		batch := get[int](t, f, f, "SELECT fence.prune(fence.number_at(clock_timestamp()))")
		require.LessOrEqual(t, batch, 1000)
		if calls++; batch == 0 {
			break
		}
		gone += batch
	}
	require.Equal(t, many+100-1, gone)
	require.LessOrEqual(t, calls, gone/1000+2)
	require.Equal(t, "awaited job/7 live", get[string](t, f, f, "SELECT string_agg(resource, ' ' ORDER BY resource) FROM fence.leases"))
	require.NoError(t, locked.Commit(ctx))
	require.Equal(t, 2, f.pruneNow(t))
}

// slow sets the issuers' clock back by an hour.
func (f fence) slow(t *testing.T) {
	t.Helper()
	f.mutate(t, "number_at", "extract(epoch FROM at)", "extract(epoch FROM at - interval '1 hour')")
	f.mutate(t, "micros", "date_part('epoch', at)", "date_part('epoch', at - interval '1 hour')")
}

func TestNumbersRiseAcrossAForgottenLease(t *testing.T) {
	t.Parallel()
	for _, p := range []pruning{asMigrated, withoutFloor} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			f := newFence(t)
			p.put(t, f)
			before := f.granted(t, f, "account/42", "a", time.Hour)
			require.True(t, get[bool](t, f, f, "SELECT fence.release('account/42', 'a')"))
			require.Equal(t, 1, f.pruneNow(t))
			f.slow(t)
			after := f.granted(t, f, "account/42", "a", time.Hour)
			if p != asMigrated {
				require.Less(t, after, before, "the twin shows nothing: its number must fall")
				return
			}
			require.GreaterOrEqual(t, after, f.floor(t))
			require.Greater(t, after, before)
			require.NoError(t, f.admit(t.Context(), f, "account/42", after, "a"), "the floor admits it")
		})
	}
}

// An acquirer that finds the row while it is being pruned waits for the commit, and then
// inserts a new row above the floor.
func TestAcquireWhileItsLeaseIsForgotten(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	before := f.granted(t, f, "account/42", "a", time.Hour)
	require.True(t, get[bool](t, f, f, "SELECT fence.release('account/42', 'a')"))
	pruner, other := f.begin(t, pgx.ReadCommitted), f.begin(t, pgx.ReadCommitted)
	require.Equal(t, 1, get[int](t, f, pruner, "SELECT fence.prune(fence.number_at(clock_timestamp()))"))
	f.slow(t)
	var after acquired
	wait := pgtest.Later(t, func() (err error) {
		after, err = f.acquire(t.Context(), other, "account/42", "b", time.Hour)
		return err
	})
	f.blocked(t, other.Conn())
	require.NoError(t, pruner.Commit(t.Context()))
	require.NoError(t, wait())
	require.NoError(t, other.Commit(t.Context()))
	require.True(t, after.Granted)
	require.Positive(t, after.Waited)
	require.Greater(t, *after.Number, before)
	require.GreaterOrEqual(t, *after.Number, f.floor(t))
}

// A lease that is granted while prune runs is kept: 1. prune reads that it is free; 2. it
// is granted; 3. prune locks its row.
func TestPruneLeavesTheLeaseThatWasJustTaken(t *testing.T) {
	t.Parallel()
	for _, p := range []pruning{asMigrated, {"without the row's lock", "LIMIT most FOR UPDATE SKIP LOCKED", "LIMIT most"}} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			f := newFence(t)
			ctx := t.Context()
			p.put(t, f)
			require.NoError(t, f.exec(ctx, f, `
				INSERT INTO fence.leases VALUES ('account/42', 1, '', '-infinity');
				CREATE FUNCTION fence.passed() RETURNS boolean LANGUAGE plpgsql AS $$
				BEGIN
					PERFORM pg_advisory_xact_lock_shared(fence.lock_key('the gate'));
					RETURN true;
				END $$`))
			passed := pgx.Identifier{f.schema, "passed"}.Sanitize()
			f.mutate(t, "prune", "AND NOT l.queued", "AND NOT l.queued AND "+passed+"()")
			gate, pruner := f.begin(t, ""), f.conn(t)
			require.NoError(t, f.exec(ctx, gate, "SELECT pg_advisory_xact_lock(fence.lock_key('the gate'))"))
			gone := 0
			wait := pgtest.Later(t, func() error {
				return pruner.QueryRow(ctx, f.sql("SELECT fence.prune(fence.number_at(clock_timestamp()))")).Scan(&gone)
			})
			f.blocked(t, pruner)
			f.granted(t, f, "account/42", "a", time.Hour)
			require.NoError(t, gate.Commit(ctx))
			require.NoError(t, wait())
			kept := get[bool](t, f, f, "SELECT renewed FROM fence.renew('account/42', 'a', '1h')")
			if p != asMigrated {
				require.False(t, kept, "the twin must delete a valid lease")
				return
			}
			require.Zero(t, gone)
			require.True(t, kept)
		})
	}
}

// Resources in use are kept, although the floor is above their marks.
func TestPruneLeaves(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	t.Run("the mark of a writer", func(t *testing.T) {
		f.marked(t, 2)
		writer := f.begin(t, pgx.ReadCommitted)
		require.NoError(t, f.admit(t.Context(), writer, "account/1", 1, "a"))
		require.Equal(t, 1, f.prune(t, 10))
		require.NoError(t, f.admit(t.Context(), writer, "account/1", 1, "a"))
		require.NoError(t, writer.Commit(t.Context()))
		require.NoError(t, f.admit(t.Context(), f, "account/1", 1, "a"), "its mark is there")
		require.Equal(t, 1, f.prune(t, 10))
	})
	t.Run("the mark that a session raises", func(t *testing.T) {
		f.marked(t, 1)
		raiser := f.begin(t, pgx.ReadCommitted)
		require.NoError(t, f.admit(t.Context(), raiser, "account/1", 20, "b"))
		require.Zero(t, f.prune(t, 10))
		require.NoError(t, raiser.Rollback(t.Context()))
		require.Equal(t, 1, f.prune(t, 10))
	})
	t.Run("the mark of a lease that lives", func(t *testing.T) {
		f.marked(t, 2)
		ctx := t.Context()
		require.NoError(t, f.exec(ctx, f, "INSERT INTO fence.leases VALUES ('account/1', 1, 'a', now() + interval '1 hour'), ('account/2', 2, 'a', now())"))
		require.Equal(t, 2, f.prune(t, 10), "the mark of account/2, and its lease, which has ended")
		require.NoError(t, f.admit(ctx, f, "account/1", 1, "a"))
		refused(t, f.admit(ctx, f, "account/2", 2, "a"), "ZF001", "10 ")
		require.NoError(t, f.exec(ctx, f, "SELECT fence.release('account/1', 'a')"))
		require.Equal(t, 2, f.prune(t, 10))
	})
	t.Run("not the mark below a lease that the floor admits", func(t *testing.T) {
		f.marked(t, 1)
		require.NoError(t, f.exec(t.Context(), f, "INSERT INTO fence.leases VALUES ('account/1', 10, 'b', now() + interval '1 hour')"))
		require.Equal(t, 1, f.prune(t, 10))
		require.NoError(t, f.admit(t.Context(), f, "account/1", 10, "b"))
	})
	t.Run("the mark that was raised since a fixed snapshot", func(t *testing.T) {
		for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
			f.marked(t, 1)
			tx := f.begin(t, level)
			require.Equal(t, 1, get[int](t, f, tx, "SELECT count(*) FROM fence.marks"))
			require.NoError(t, f.admit(t.Context(), f, "account/1", 20, "b"))
			require.Equal(t, "40001", code(f.exec(t.Context(), tx, "SELECT fence.prune(10)")))
			require.Zero(t, f.floor(t))
		}
	})
	t.Run("everything, if it is rolled back", func(t *testing.T) {
		f.marked(t, 9)
		tx := f.begin(t, pgx.ReadCommitted)
		require.Equal(t, 9, get[int](t, f, tx, "SELECT fence.prune(10)"))
		require.NoError(t, tx.Rollback(t.Context()))
		require.Zero(t, f.floor(t))
		require.NoError(t, f.admit(t.Context(), f, "account/5", 5, "a"))
	})
	t.Run("nothing to a second one, which waits", func(t *testing.T) {
		f.marked(t, 9)
		first, second := f.begin(t, pgx.ReadCommitted), f.begin(t, pgx.ReadCommitted)
		require.Equal(t, 5, get[int](t, f, first, "SELECT fence.prune(10, 5)"))
		gone := 0
		wait := pgtest.Later(t, func() error {
			return second.QueryRow(t.Context(), f.sql("SELECT fence.prune(10)")).Scan(&gone)
		})
		f.blocked(t, second.Conn())
		require.NoError(t, first.Commit(t.Context()))
		require.NoError(t, wait())
		require.Equal(t, 4, gone)
	})
}
