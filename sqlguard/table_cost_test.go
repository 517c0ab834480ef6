package sqlguard_test

import (
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/ratio"
	"github.com/fencepost/fencepost/sqlguard"
)

const plainUpdate = "UPDATE accounts SET balance = balance + 1 WHERE id = $1"

// The row's mark is written with the row: what a log record has more is the two
// columns, and not even those where the token is the one that wrote last.
func TestAnUpdateWritesSixBytesMore(t *testing.T) {
	t.Parallel()
	e := newRows(t)
	tx := e.open(pgx.TxOptions{})
	wal := func(text string, args ...any) (bytes int) {
		t.Helper()
		var answer []byte
		require.NoError(t, tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, WAL, FORMAT JSON) "+e.sql(text), args...).Scan(&answer))
		var plans []struct {
			Plan map[string]any
		}
		require.NoError(t, json.Unmarshal(answer, &plans))
		require.Zero(t, plans[0].Plan["WAL FPI"], "a page that was written whole says nothing")
		require.Equal(t, 1.0, plans[0].Plan["WAL Records"], "a heap-only update is one record")
		return int(plans[0].Plan["WAL Bytes"].(float64))
	}
	fenced := func(number int64) (string, []any) {
		own, err := e.accounts.Fence(e.ctx(number), 42)
		require.NoError(t, err)
		return "UPDATE accounts AS t SET balance = balance + 1, " + own.Set("t", 1) + " WHERE " + own.Where("t", 1), own.Args()
	}
	_, err := tx.Exec(t.Context(), e.sql(plainUpdate), 42) // the page's image is written once
	require.NoError(t, err)
	plain := wal(plainUpdate, 42)
	text, args := fenced(33)
	first := wal(text, args...)
	again := wal(text, args...)
	t.Logf("WAL bytes: plain %d, the first write of a token %d, its next %d", plain, first, again)
	require.LessOrEqual(t, again-plain, 6)
	require.LessOrEqual(t, first-plain, 8+1+len("h33")+16, "no more than the two values, aligned")
}

func TestUpdatesStayHeapOnly(t *testing.T) {
	t.Parallel()
	e := newRows(t)
	hot := func(write func(i int, tx pgx.Tx) error) (updated, heapOnly int) {
		pool, _ := wired(t, 1) // a session of its own, which has counted nothing yet
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		for i := range 50 {
			require.NoError(t, write(i, tx))
		}
		require.NoError(t, tx.QueryRow(t.Context(), e.sql(`SELECT pg_stat_get_xact_tuples_updated(c), pg_stat_get_xact_tuples_hot_updated(c)
			FROM CAST('accounts' AS regclass) AS c`)).Scan(&updated, &heapOnly))
		require.NoError(t, tx.Rollback(t.Context()))
		return updated, heapOnly
	}
	updated, plain := hot(func(_ int, tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), e.sql(plainUpdate), 42)
		return err
	})
	require.Equal(t, 50, updated)
	require.Positive(t, plain)
	updated, fenced := hot(func(i int, tx pgx.Tx) error {
		return e.table(e.with(func(g *sqlguard.Guard) { g.DB = tx })).Update(e.ctx(int64(33+i)), 42, sqlguard.Set{{"balance", i}})
	})
	require.Equal(t, 50, updated)
	require.Equal(t, plain, fenced)
	e.exec("CREATE INDEX ON accounts (last_token)")
	_, indexed := hot(func(i int, tx pgx.Tx) error {
		return e.table(e.with(func(g *sqlguard.Guard) { g.DB = tx })).Update(e.ctx(int64(33+i)), 42, sqlguard.Set{{"balance", i}})
	})
	require.Zero(t, indexed, "the twin, whose mark is indexed, must lose them")
}

func BenchmarkTableUpsert(b *testing.B) {
	e := newRows(b)
	e.claimed(33)
	ctx, set := e.ctx(33), e.sql("INSERT INTO accounts (id, writer) VALUES ($2, $1) ON CONFLICT (id) DO UPDATE SET writer = excluded.writer")
	ratio.Report(b,
		func() error { _, err := e.pool.Exec(ctx, set, "x", 42); return err },
		func() error { return e.accounts.Upsert(ctx, 42, sqlguard.Set{{"writer", "x"}}) })
}
