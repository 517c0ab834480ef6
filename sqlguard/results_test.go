package sqlguard_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

func TestSendBatch(t *testing.T) {
	t.Parallel()
	set := "UPDATE accounts SET writer = $1 WHERE id = 42 RETURNING writer"
	inEnv(t, "results can be read one by one, and Close commits", func(t *testing.T, e *env) {
		b := &pgx.Batch{}
		for _, who := range []string{"a", "b", "c", "d"} {
			b.Queue(e.sql(set), who)
		}
		br := e.guard.On(resource).SendBatch(e.ctx(33), b)
		tag, err := br.Exec()
		require.NoError(t, err)
		require.Equal(t, "UPDATE 1", tag.String())
		var who string
		require.NoError(t, br.QueryRow().Scan(&who))
		require.Equal(t, "b", who)
		rows, err := br.Query()
		require.NoError(t, err)
		got, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		require.Equal(t, []string{"c"}, got)
		require.Nil(t, br.Tx())
		require.NoError(t, br.Close())
		require.NoError(t, br.Close())
		_, err = br.Exec()
		require.Error(t, err)
		_, err = br.Query()
		require.Error(t, err)
		require.Equal(t, "d", e.writer())
	})
	inEnv(t, "callbacks run", func(t *testing.T, e *env) {
		for _, mode := range modes {
			pool, _ := wired(t, 1, inMode(mode))
			on := e.by(pool).On(resource)
			var who, again string
			var affected int64
			b := &pgx.Batch{}
			b.Queue(e.sql(set), "a").QueryRow(func(row pgx.Row) error { return row.Scan(&who) })
			b.Queue(e.sql(set), "b").Query(func(rows pgx.Rows) error {
				_, err := pgx.ForEachRow(rows, []any{&again}, func() error { return nil })
				return err
			})
			b.Queue(e.sql(set), "c").Exec(func(ct pgconn.CommandTag) error { affected = ct.RowsAffected(); return nil })
			require.NoError(t, on.SendBatch(e.ctx(33), b).Close(), mode)
			require.Equal(t, "ab1", who+again+string(rune('0'+affected)), mode)
			require.Equal(t, "c", e.writer())
		}
	})
	inEnv(t, "an error of the server applies nothing, one of a callback leaves it open", func(t *testing.T, e *env) {
		own := errors.New("own")
		for _, mode := range modes {
			pool, w := wired(t, 1, inMode(mode))
			on := e.by(pool).On(resource)
			b := &pgx.Batch{}
			b.Queue(e.sql(set), "never")
			b.Queue("SELECT 1 / $1::int", 0).QueryRow(func(row pgx.Row) error { _ = row.Scan(nil); return own })
			err := on.SendBatch(e.ctx(33), b).Close()
			require.ErrorIs(t, err, own, mode)
			require.Empty(t, outcomes(err), mode)
			require.NotEqual(t, "never", e.writer(), mode)

			b = &pgx.Batch{}
			b.Queue(e.sql(set), "never")
			b.Queue("SELECT 1 / $1::int", 0)
			br := on.SendBatch(e.ctx(33), b)
			_, err = br.Exec()
			require.NoError(t, err, mode)
			_, err = br.Exec()
			require.ErrorContains(t, err, "division by zero", mode)
			require.ErrorContains(t, br.Close(), "division by zero", mode)
			require.NotEqual(t, "never", e.writer(), mode)

			b = &pgx.Batch{}
			b.Queue(e.sql(set), mode.String()).Exec(func(pgconn.CommandTag) error { return own })
			b.Queue(e.sql(set), mode.String())
			err = on.SendBatch(e.ctx(33), b).Close()
			require.ErrorIs(t, err, own, mode)
			require.ErrorIs(t, err, guard.ErrUnknown, mode)
			require.Equal(t, mode.String(), e.writer(), "in truth it was applied")
			require.Zero(t, pool.Stat().AcquiredConns())
			require.Equal(t, int64(1), w.dials.Load(), mode)
		}
	})
	inEnv(t, "no callback runs after one that failed or panicked", func(t *testing.T, e *env) {
		b := &pgx.Batch{}
		b.Queue(e.sql(set), "x").Exec(func(pgconn.CommandTag) error { return errors.New("own") })
		for range 3 {
			b.Queue(e.sql(set), "x").Exec(func(pgconn.CommandTag) error { t.Error("called"); return nil })
		}
		require.Error(t, e.guard.On(resource).SendBatch(e.ctx(33), b).Close())
		b.QueuedQueries[0].Exec(func(pgconn.CommandTag) error { panic("boo") })
		br := e.guard.On(resource).SendBatch(e.ctx(33), b)
		require.PanicsWithValue(t, "boo", func() { _ = br.Close() })
		require.Error(t, br.Close())
		require.Zero(t, e.pool.Stat().AcquiredConns())
	})
	inEnv(t, "a refused batch applies nothing", func(t *testing.T, e *env) {
		e.admitted(34)
		b := &pgx.Batch{}
		b.Queue(e.sql(set), "stale").Exec(func(pgconn.CommandTag) error { panic("called") })
		require.ErrorIs(t, e.guard.On(resource).SendBatch(e.ctx(33), b).Close(), guard.ErrStale)
		require.Empty(t, e.writer())
	})
	inEnv(t, "a batch that begins a transaction is refused, an empty one is admitted", func(t *testing.T, e *env) {
		b := &pgx.Batch{}
		b.BeginTx(pgx.TxOptions{})
		require.ErrorContains(t, e.guard.On(resource).SendBatch(e.ctx(33), b).Close(), "do not call BeginTx")
		require.NoError(t, e.guard.On(resource).SendBatch(e.ctx(33), &pgx.Batch{}).Close())
		require.Equal(t, "33 h33", e.mark(resource))
	})
}

func TestRows(t *testing.T) {
	t.Parallel()
	inEnv(t, "rows that are not read to their end are committed by Close", func(t *testing.T, e *env) {
		rows, err := e.guard.On(resource).Query(e.ctx(33), e.sql("UPDATE accounts SET writer = 'x' RETURNING id"))
		require.NoError(t, err)
		require.True(t, rows.Next())
		values, err := rows.Values()
		require.NoError(t, err)
		require.Len(t, values, 1)
		rows.Close()
		rows.Close()
		require.NoError(t, rows.Err())
		require.False(t, rows.Next())
		require.Equal(t, "UPDATE 2", rows.CommandTag().String())
		require.Equal(t, "x", e.writer())
		require.Zero(t, e.pool.Stat().AcquiredConns())
	})
	inEnv(t, "an error in the middle of the rows is an ordinary one", func(t *testing.T, e *env) {
		rows, err := e.guard.On(resource).Query(e.ctx(33), "SELECT 1 / (43 - id) FROM generate_series(42, 44) AS id")
		require.NoError(t, err)
		for rows.Next() {
		}
		require.ErrorContains(t, rows.Err(), "division by zero")
		require.Empty(t, outcomes(rows.Err()))
		require.Zero(t, e.pool.Stat().AcquiredConns())
	})
	inEnv(t, "an error while scanning leaves the outcome open and the connection free", func(t *testing.T, e *env) {
		set := e.sql("UPDATE accounts SET writer = $1 RETURNING writer")
		for _, mode := range modes {
			pool, w := wired(t, 1, inMode(mode))
			on := e.by(pool).On(resource)
			rows, err := on.Query(e.ctx(33), set, mode.String())
			require.NoError(t, err)
			require.True(t, rows.Next())
			err = rows.Scan(new(int64))
			require.ErrorIs(t, err, guard.ErrUnknown)
			require.ErrorAs(t, err, new(pgx.ScanArgError))
			require.Equal(t, err, rows.Err())
			require.ErrorIs(t, on.QueryRow(e.ctx(33), set, mode.String()).Scan(new(int64)), guard.ErrUnknown)
			require.Equal(t, mode.String(), e.writer(), "in truth it was applied")
			require.Zero(t, pool.Stat().AcquiredConns())
			require.Equal(t, int64(1), w.dials.Load())
		}
	})
}
