package sqlguard_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
)

// dbtx is what sqlc generates for pgx/v5, with :copyfrom in use.
type dbtx interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
	Query(context.Context, string, ...any) (pgx.Rows, error)
	QueryRow(context.Context, string, ...any) pgx.Row
	SendBatch(context.Context, *pgx.Batch) pgx.BatchResults
	CopyFrom(ctx context.Context, tableName pgx.Identifier, columnNames []string, rowSrc pgx.CopyFromSource) (int64, error)
}

var _ dbtx = sqlguard.Conn{}

func TestOn(t *testing.T) {
	t.Parallel()
	t.Run("the statement's tag, rows and errors are pgx's own", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		ctx, on := e.ctx(33), e.guard.On(resource)
		tag, err := on.Exec(ctx, e.sql("UPDATE accounts SET balance = balance + 1"))
		require.NoError(t, err)
		require.Equal(t, "UPDATE 2", tag.String())
		err = on.QueryRow(ctx, e.sql("SELECT id FROM accounts WHERE id = 7")).Scan(new(int64))
		require.Equal(t, pgx.ErrNoRows, err)
		_, err = on.Exec(ctx, e.sql("INSERT INTO accounts (id) VALUES (42)"))
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg)
		require.Equal(t, "23505", pg.Code)
		require.Empty(t, outcomes(err))
		_, err = on.Exec(ctx, "SELECT * FROM nowhere")
		require.ErrorAs(t, err, &pg)
		require.Equal(t, "42P01", pg.Code)
		require.Empty(t, outcomes(err))
	})
	t.Run("an error at the commit is the statement's", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		e.exec("CREATE TABLE ledger (id bigint UNIQUE DEFERRABLE INITIALLY DEFERRED)")
		e.exec("INSERT INTO ledger VALUES (1)")
		ctx, on := e.ctx(33), e.guard.On(resource)
		insert := e.sql("INSERT INTO ledger VALUES (1)")
		b := &pgx.Batch{}
		b.Queue(insert)
		rows, err := on.Query(ctx, insert+" RETURNING id")
		require.NoError(t, err, "it comes with the commit")
		rows.Close()
		_, execErr := on.Exec(ctx, insert)
		for name, err := range map[string]error{
			"Exec": execErr, "Query": rows.Err(), "SendBatch": on.SendBatch(ctx, b).Close(),
			"QueryRow": on.QueryRow(ctx, insert+" RETURNING id").Scan(nil),
			"Update":   e.guard.Update(ctx, resource, func(tx pgx.Tx) error { _, err := tx.Exec(ctx, insert); return err }),
		} {
			var pg *pgconn.PgError
			require.ErrorAs(t, err, &pg, name)
			require.Equal(t, "23505", pg.Code, name)
			require.Empty(t, outcomes(err), name)
		}
		require.Equal(t, 1, query[int](e, "SELECT count(*) FROM ledger"))
	})
	t.Run("named arguments work, options are refused", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		ctx, on := e.ctx(33), e.guard.On(resource)
		set := e.sql("UPDATE accounts SET writer = @who WHERE id = 42")
		_, err := on.Exec(ctx, set, pgx.NamedArgs{"who": "named"})
		require.NoError(t, err)
		require.Equal(t, "named", e.writer())
		_, err = on.Exec(ctx, set, pgx.StrictNamedArgs{"whom": "x"})
		require.ErrorContains(t, err, "who")
		require.Empty(t, outcomes(err), "nothing was sent")
		for _, option := range []any{pgx.QueryExecModeExec, pgx.QueryResultFormats{1}, pgx.QueryResultFormatsByOID{}} {
			_, err = on.Exec(ctx, "SELECT $1", option, "x")
			require.ErrorContains(t, err, "sqlguard: a guarded statement takes no pgx.Query")
			_, err = on.Query(ctx, "SELECT $1", pgx.NamedArgs{}, option)
			require.ErrorContains(t, err, "takes no pgx.Query")
		}
	})
	t.Run("an argument that cannot be encoded is an ordinary error", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		for _, mode := range modes {
			pool, _ := wired(t, 1, inMode(mode))
			on := e.with(func(g *sqlguard.Guard) { g.DB = pool }).On(resource)
			_, err := on.Exec(e.ctx(33), e.sql("UPDATE accounts SET balance = $1"), struct{ a chan int }{})
			require.Error(t, err, mode)
			require.Empty(t, outcomes(err), mode)
			_, err = on.Exec(e.ctx(33), "SELECT 1")
			require.NoError(t, err, mode)
		}
	})
	t.Run("statements about transactions leave no broken connection", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		for _, mode := range modes {
			pool, w := wired(t, 1, inMode(mode))
			on := e.with(func(g *sqlguard.Guard) { g.DB = pool }).On(resource)
			for _, statement := range []string{"BEGIN", "COMMIT", "ROLLBACK", "COMMIT AND CHAIN", "SAVEPOINT a", "VACUUM", "ROLLBACK TO a"} {
				_, _ = on.Exec(e.ctx(33), statement)
				require.Zero(t, pool.Stat().AcquiredConns(), statement)
				_, err := on.Exec(e.ctx(33), e.sql("UPDATE accounts SET writer = $1 WHERE id = 42"), statement)
				require.NoError(t, err, "%s, %s", mode, statement)
				require.Equal(t, statement, e.writer())
			}
			require.Equal(t, int64(1), w.dials.Load(), mode)
		}
	})
	t.Run("copied rows are guarded", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		e.admitted(34)
		n, err := e.guard.On(resource).CopyFrom(e.ctx(33), pgx.Identifier{e.schema, "accounts"}, []string{"id"}, pgx.CopyFromRows([][]any{{int64(44)}}))
		require.ErrorIs(t, err, guard.ErrStale)
		require.Zero(t, n)
		n, err = e.guard.On(resource).CopyFrom(e.ctx(34), pgx.Identifier{e.schema, "accounts"}, []string{"id"}, pgx.CopyFromRows([][]any{{int64(44)}}))
		require.NoError(t, err)
		require.Equal(t, int64(1), n)
	})
}
