package rowguard_test

import (
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/benchratio"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
)

const plainUpdate = "UPDATE fence.accounts SET balance = balance + 1 WHERE id = $1"

// The row's mark is written with the row: a log record only grows by the two columns, and
// not even by these if the token was the last writer.
func TestAnUpdateWritesSixBytesMore(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	tx := e.begin("")
	whole := false // a checkpoint occurred, and a whole page was logged
	wal := func(text string, args ...any) (bytes int) {
		t.Helper()
		var answer []byte
		require.NoError(t, tx.QueryRow(e.base, "EXPLAIN (ANALYZE, WAL, FORMAT JSON) "+e.sql(text), args...).Scan(&answer))
		var plans []struct {
			Plan map[string]any
		}
		require.NoError(t, json.Unmarshal(answer, &plans))
		whole = whole || plans[0].Plan["WAL FPI"] != 0.0
		require.Equal(t, 1.0, plans[0].Plan["WAL Records"], "a heap-only update is one record")
		return int(plans[0].Plan["WAL Bytes"].(float64))
	}
	e.run(tx, plainUpdate, 42) // the page's image is written once
	plain, first, again := 0, 0, 0
	for number := int64(33); number == 33 || whole; number++ { // such a record proves nothing: try again
		whole = false
		plain = wal(plainUpdate, 42)
		own, err := e.Fence(e.ctx(number), 42)
		require.NoError(t, err)
		f := own.Clauses("t")
		text := "UPDATE fence.accounts AS t SET balance = balance + 1, " + f.Set + " WHERE " + f.Where
		first = wal(text, f.Args...)
		again = wal(text, f.Args...)
	}
	t.Logf("WAL bytes: plain %d, the first write of a token %d, its next %d", plain, first, again)
	require.LessOrEqual(t, again-plain, 6)
	require.LessOrEqual(t, first-plain, 8+1+len("h33")+16, "no more than the two values, aligned")
}

func TestUpdatesStayHeapOnly(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	hot := func(write func(i int, tx pgx.Tx)) (heapOnly int) {
		tx, err := e.connect(1, pgx.QueryExecModeExec).Begin(e.base) // a new session, whose statistics are empty
		require.NoError(t, err)
		for i := range 50 {
			write(i, tx)
		}
		var updated int
		require.NoError(t, tx.QueryRow(e.base, e.sql(`SELECT pg_stat_get_xact_tuples_updated(c), pg_stat_get_xact_tuples_hot_updated(c)
			FROM CAST('fence.accounts' AS regclass) AS c`)).Scan(&updated, &heapOnly))
		require.NoError(t, tx.Rollback(e.base))
		require.Equal(t, 50, updated)
		return heapOnly
	}
	fenced := func(i int, tx pgx.Tx) {
		require.NoError(t, e.over(tx).Update(e.ctx(int64(33+i)), 42, rowguard.Set{"balance": i}))
	}
	plain := hot(func(_ int, tx pgx.Tx) { e.run(tx, plainUpdate, 42) })
	require.Positive(t, plain)
	require.Equal(t, plain, hot(fenced))
	e.exec("CREATE INDEX ON fence.accounts (last_token)")
	require.Zero(t, hot(fenced), "the twin, whose mark is indexed, must lose them")
}

func BenchmarkTableUpsert(b *testing.B) {
	e := newEnv(b)
	e.claimed(33)
	ctx, set := e.ctx(33), e.sql("INSERT INTO fence.accounts (id, writer) VALUES ($2, $1) ON CONFLICT (id) DO UPDATE SET writer = excluded.writer")
	benchratio.Report(b,
		func() error { _, err := e.pool.Exec(ctx, set, "x", 42); return err },
		func() error { return e.Upsert(ctx, 42, x) })
}
