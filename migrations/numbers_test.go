package migrations_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
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
		wait := later(t, func() (err error) {
			waited, err = call(tx)
			return err
		})
		f.blocked(t, tx.Conn())
		meanwhile = f.granted(t, f, t.Name()+"/meanwhile", "b", time.Minute)
		letGo(now(t, f, f))
		require.NoError(t, wait())
		require.NoError(t, tx.Commit(t.Context()))
		return waited, meanwhile
	}
	t.Run("so who waited has the higher one", func(t *testing.T) {
		t.Parallel()
		waited, meanwhile := run(t, func(tx pgx.Tx) (int64, error) {
			a, err := f.acquire(t.Context(), tx, t.Name(), "a", time.Minute)
			if err != nil {
				return 0, err
			}
			return *a.Number, nil
		})
		require.Greater(t, waited, meanwhile)
	})
	t.Run("the naive twin drew before it waited", func(t *testing.T) {
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
	t.Run("where the lease had the last one", func(t *testing.T) {
		require.NoError(t, f.exec(t.Context(), f, "INSERT INTO fence.leases VALUES ($1, 999999999999999, '', '-infinity')", t.Name()))
		_, err := f.acquire(t.Context(), f, t.Name(), "a", time.Minute)
		refused(t, err, "ZF005", "")
		require.ErrorContains(t, err, "fencepost: numbers exhausted")
	})
	t.Run("where the sequence has none left", func(t *testing.T) {
		require.NoError(t, f.exec(t.Context(), f, "SELECT setval($1::text::regclass, 999999999999999)", f.sql("fence.numbers")))
		_, err := f.acquire(t.Context(), f, t.Name(), "a", time.Minute)
		require.Equal(t, "2200H", code(err), "in PostgreSQL's own words")
	})
}
