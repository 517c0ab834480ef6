package sqlguard_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/benchratio"
	"github.com/fencepost/fencepost/internal/test/hooktest"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/token"
)

func TestOutcomesOfAStatementByItself(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run("a lost reply is unknown, and the write applied, in mode "+mode.String(), func(t *testing.T) {
			t.Parallel()
			e := newRows(t)
			pool, arm := dropsReplies(t, "applied", mode, func() {})
			accounts := e.table(e.with(func(g *sqlguard.Guard) { g.DB = pool }))
			require.NoError(t, accounts.Update(e.ctx(33), 42, setWriter))
			arm.Store(true)
			var h hooktest.Record
			ctx := h.Listen(e.ctx(33))
			var err error
			steps := during(&h, func() { err = accounts.Update(ctx, 42, rowguard.Set{"writer": "applied"}) })
			require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "%v", err)
			require.Equal(t, []string{"begin", "unknown"}, steps)
			e.await("the write", func() bool { return e.writer() == "applied" })
		})
	}
	t.Run("a caller that has left before it was sent has sent nothing", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		ctx, leave := context.WithCancel(e.ctx(33))
		leave()
		err := e.accounts.Update(ctx, 42, setWriter)
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, outcomes(err))
		require.Equal(t, "1 h1", e.row())
	})
	t.Run("a caller who leaves while it waits does not know", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		tx := e.open(pgx.TxOptions{})
		require.NoError(t, e.write(t.Context(), "B")(tx))
		ctx, leave := context.WithCancel(e.ctx(33))
		late := async(func() error { return e.accounts.Update(ctx, 42, setWriter) })
		e.awaitWaiting(1)
		leave()
		require.Equal(t, []error{guard.ErrUnknown}, outcomes(await(t, late)))
	})
	t.Run("an error of pgx or of the server for the statement is an ordinary error", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		e.exec("ALTER TABLE accounts ADD twin bigint REFERENCES accounts DEFERRABLE INITIALLY DEFERRED")
		closed, _ := wired(t, 1)
		closed.Close()
		var pg *pgconn.PgError
		for name, err := range map[string]error{
			"an argument that cannot be encoded": e.accounts.Update(e.ctx(33), 42, rowguard.Set{"balance": struct{}{}}),
			"a column that is not there":         e.accounts.Update(e.ctx(33), 42, rowguard.Set{"nowhere": 1}),
			"a constraint at the commit":         e.accounts.Update(e.ctx(33), 42, rowguard.Set{"twin": 7}),
			"a closed pool":                      e.table(&sqlguard.Guard{DB: closed}).Update(e.ctx(33), 42, setWriter),
			"a wrapper, an argument":             onWrapper(e).Update(e.ctx(33), 42, rowguard.Set{"balance": struct{}{}}),
			"a wrapper, at the commit":           onWrapper(e).Update(e.ctx(33), 42, rowguard.Set{"twin": 7}),
		} {
			require.Error(t, err, name)
			require.Empty(t, outcomes(err), "%s: %v", name, err)
		}
		require.ErrorAs(t, e.accounts.Update(e.ctx(33), 42, rowguard.Set{"twin": 7}), &pg)
		require.Equal(t, "23503", pg.Code)
		require.Equal(t, "1 h1", e.row(), "nothing was applied")
	})
	t.Run("a session that was ended may have committed first", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		e.exec("CREATE FUNCTION " + e.schema + ".die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()), pg_sleep(60); RETURN NEW; END $$")
		e.exec("CREATE TRIGGER die BEFORE UPDATE ON accounts FOR EACH ROW EXECUTE FUNCTION " + e.schema + ".die()")
		require.Equal(t, []error{guard.ErrUnknown}, outcomes(e.accounts.Update(e.ctx(33), 42, setWriter)))
		require.Equal(t, []error{guard.ErrUnknown}, outcomes(onWrapper(e).Update(e.ctx(33), 42, setWriter)))
	})
	t.Run("a lease that is lost meanwhile decides nothing", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		tx := e.open(pgx.TxOptions{})
		require.NoError(t, e.write(t.Context(), "B")(tx))
		ctx, lose := e.leased(33)
		late := async(func() error { return e.accounts.Update(ctx, 42, setWriter) })
		e.awaitWaiting(1)
		lose(&token.LostError{Token: tokenOf(33)})
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, tx.Commit(t.Context()))
		require.NoError(t, await(t, late))
		require.Equal(t, "33 h33", e.row())
	})
}

// onWrapper returns the table over a DB that exposes only SendBatch.
func onWrapper(e rowsEnv) *rowguard.Table {
	conn, err := e.pool.Acquire(e.t.Context())
	require.NoError(e.t, err)
	e.t.Cleanup(conn.Release)
	return e.table(e.with(func(g *sqlguard.Guard) { g.DB = wrapper{conn.Conn()} }))
}

const plainUpdate = "UPDATE accounts SET balance = balance + 1 WHERE id = $1"

// The row's mark is written with the row: a log record only grows by the two columns, and
// not even by these if the token was the last writer.
func TestAnUpdateWritesSixBytesMore(t *testing.T) {
	t.Parallel()
	e := newFreshRows(t)
	tx := e.open(pgx.TxOptions{})
	whole := false // a checkpoint occurred, and a whole page was logged
	wal := func(text string, args ...any) (bytes int) {
		t.Helper()
		var answer []byte
		require.NoError(t, tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, WAL, FORMAT JSON) "+e.sql(text), args...).Scan(&answer))
		var plans []struct {
			Plan map[string]any
		}
		require.NoError(t, json.Unmarshal(answer, &plans))
		whole = whole || plans[0].Plan["WAL FPI"] != 0.0
		require.Equal(t, 1.0, plans[0].Plan["WAL Records"], "a heap-only update is one record")
		return int(plans[0].Plan["WAL Bytes"].(float64))
	}
	fenced := func(number int64) (string, []any) {
		own, err := e.accounts.Fence(e.ctx(number), 42)
		require.NoError(t, err)
		f := own.Clauses("t")
		return "UPDATE accounts AS t SET balance = balance + 1, " + f.Set + " WHERE " + f.Where, f.Args
	}
	_, err := tx.Exec(t.Context(), e.sql(plainUpdate), 42) // the page's image is written once
	require.NoError(t, err)
	plain, first, again := 0, 0, 0
	for number := int64(33); number == 33 || whole; number++ { // such a record proves nothing: try again
		whole = false
		plain = wal(plainUpdate, 42)
		text, args := fenced(number)
		first = wal(text, args...)
		again = wal(text, args...)
	}
	t.Logf("WAL bytes: plain %d, the first write of a token %d, its next %d", plain, first, again)
	require.LessOrEqual(t, again-plain, 6)
	require.LessOrEqual(t, first-plain, 8+1+len("h33")+16, "no more than the two values, aligned")
}

func TestUpdatesStayHeapOnly(t *testing.T) {
	t.Parallel()
	e := newFreshRows(t)
	hot := func(write func(i int, tx pgx.Tx) error) (updated, heapOnly int) {
		pool, _ := wired(t, 1) // a new session, whose statistics are empty
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
		return e.table(e.with(func(g *sqlguard.Guard) { g.DB = tx })).Update(e.ctx(int64(33+i)), 42, rowguard.Set{"balance": i})
	})
	require.Equal(t, 50, updated)
	require.Equal(t, plain, fenced)
	e.exec("CREATE INDEX ON accounts (last_token)")
	_, indexed := hot(func(i int, tx pgx.Tx) error {
		return e.table(e.with(func(g *sqlguard.Guard) { g.DB = tx })).Update(e.ctx(int64(33+i)), 42, rowguard.Set{"balance": i})
	})
	require.Zero(t, indexed, "the twin, whose mark is indexed, must lose them")
}

func BenchmarkTableUpsert(b *testing.B) {
	e := newRows(b)
	e.claimed(33)
	ctx, set := e.ctx(33), e.sql("INSERT INTO accounts (id, writer) VALUES ($2, $1) ON CONFLICT (id) DO UPDATE SET writer = excluded.writer")
	benchratio.Report(b,
		func() error { _, err := e.pool.Exec(ctx, set, "x", 42); return err },
		func() error { return e.accounts.Upsert(ctx, 42, rowguard.Set{"writer": "x"}) })
}
