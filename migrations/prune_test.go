package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func (f fence) floor(t *testing.T) int64 {
	t.Helper()
	return get[int64](t, f, f, "SELECT number FROM fence.floor")
}

func (f fence) prune(t *testing.T, cutoff int64) int {
	t.Helper()
	return get[int](t, f, f, "SELECT fence.prune($1)", cutoff)
}

// marked is a fence with marks (1, a) of account/1 to (n, a) of account/n.
func marked(t *testing.T, n int) fence {
	t.Helper()
	f := newFence(t)
	require.NoError(t, f.exec(t.Context(), f, "SELECT fence.admit('account/' || i, i, 'a') FROM generate_series(1, $1::integer) i", n))
	return f
}

// hazard G21
func TestPrune(t *testing.T) {
	t.Parallel()
	t.Run("deletes what is below the cutoff, and raises the floor to it", func(t *testing.T) {
		t.Parallel()
		f := marked(t, 9)
		require.Equal(t, 4, f.prune(t, 5))
		require.Equal(t, int64(5), f.floor(t))
		require.Equal(t, "5 6 7 8 9", get[string](t, f, f, "SELECT string_agg(number::text, ' ' ORDER BY number) FROM fence.marks"))
		require.Zero(t, f.prune(t, 5))
	})
	t.Run("raises the floor where there is nothing to delete", func(t *testing.T) {
		t.Parallel()
		f := newFence(t)
		require.Zero(t, f.prune(t, 5))
		require.Equal(t, int64(5), f.floor(t))
	})
	t.Run("never lowers the floor", func(t *testing.T) {
		t.Parallel()
		f := pruned(t)
		for _, cutoff := range []int64{9, 0, -1} {
			require.Zero(t, f.prune(t, cutoff))
			require.Equal(t, int64(10), f.floor(t))
		}
	})
	t.Run("goes by batches", func(t *testing.T) {
		t.Parallel()
		f := marked(t, 9)
		for _, gone := range []int{3, 3, 2, 0} {
			require.Equal(t, gone, get[int](t, f, f, "SELECT fence.prune(9, 3)"))
			require.Equal(t, int64(9), f.floor(t), "the floor is there from the first batch on")
		}
	})
	t.Run("takes no more than its batch's locks", func(t *testing.T) {
		t.Parallel()
		f := marked(t, 9)
		tx := f.begin(t, pgx.ReadCommitted)
		require.Equal(t, 3, get[int](t, f, tx, "SELECT fence.prune(9, 3)"))
		require.Equal(t, 3, get[int](t, f, tx, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"))
	})
	t.Run("refuses what is no batch", func(t *testing.T) {
		t.Parallel()
		f := marked(t, 1)
		for _, most := range []any{0, -1, 1001, nil} {
			require.Equal(t, "22023", code(f.exec(t.Context(), f, "SELECT fence.prune(5, $1)", most)), "%v", most)
		}
		require.Zero(t, f.floor(t))
	})
	t.Run("refuses a cutoff above the clock, and takes the clock", func(t *testing.T) {
		t.Parallel()
		f := marked(t, 1)
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
		t.Parallel()
		f := newFence(t)
		require.Equal(t, int64(170_000_000_012_345), get[int64](t, f, f, "SELECT fence.number_at(to_timestamp(1700000000.123456))"))
		require.Equal(t, int64(-1), get[int64](t, f, f, "SELECT fence.number_at('1969-12-31 23:59:59.999999Z')"))
		require.Nil(t, get[*int64](t, f, f, "SELECT fence.number_at(NULL)"))
		month := get[int64](t, f, f, "SELECT fence.number_at(now() - interval '30 days')")
		require.NoError(t, f.exec(t.Context(), f, "SELECT fence.prune(fence.number_at(now() - interval '30 days'))"))
		require.GreaterOrEqual(t, f.floor(t), month)
		require.LessOrEqual(t, f.floor(t), get[int64](t, f, f, "SELECT fence.number_at(now() - interval '30 days')"))
	})
}
