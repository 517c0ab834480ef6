package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

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
		wait := later(t, func() error {
			return newer.QueryRow(ctx, f.sql("SELECT fence.mint($1, 'b')"), t.Name()).Scan(&n)
		})
		f.blocked(t, newer.Conn())
		require.NoError(t, older.Commit(ctx))
		require.NoError(t, wait())
		require.Equal(t, int64(high+1), n)
	})
	// hazard P3
	// hazard G26
	t.Run("is durable whatever the session says", func(t *testing.T) {
		t.Parallel()
		for own, want := range map[string]string{"off": "on", "local": "on", "remote_write": "on", "on": "on", "remote_apply": "remote_apply"} {
			tx := f.begin(t, pgx.ReadCommitted)
			require.NoError(t, f.exec(ctx, tx, "SET LOCAL synchronous_commit = "+own))
			mint(t, tx, "a")
			require.Equal(t, want, get[string](t, f, tx, "SHOW synchronous_commit"))
			require.NoError(t, tx.Rollback(ctx))
		}
	})
	t.Run("refuses where fifteen digits are used up", func(t *testing.T) {
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
