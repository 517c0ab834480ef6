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

// dbtx is the interface that sqlc generates for pgx/v5 with :copyfrom.
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
	inEnv(t, "the statement's tag, rows and errors are pgx's own", func(t *testing.T, e *env) {
		ctx, on := e.ctx(33), e.guard.On(resource)
		tag, err := on.Exec(ctx, e.sql("UPDATE accounts SET balance = balance + 1"))
		require.NoError(t, err)
		require.Equal(t, "UPDATE 2", tag.String())
		err = on.QueryRow(ctx, e.sql("SELECT id FROM accounts WHERE id = 7")).Scan(new(int64))
		require.Equal(t, pgx.ErrNoRows, err)
		_, err = on.Exec(ctx, e.sql("INSERT INTO accounts (id) VALUES (42)"))
		require.Equal(t, "23505", outcomeCode(err))
		require.Empty(t, outcomes(err))
		_, err = on.Exec(ctx, "SELECT * FROM nowhere")
		require.Equal(t, "42P01", outcomeCode(err))
		require.Empty(t, outcomes(err))
	})
	inEnv(t, "an error at the commit is the statement's", func(t *testing.T, e *env) {
		e.exec("CREATE TABLE ledger (id bigint UNIQUE DEFERRABLE INITIALLY DEFERRED)")
		e.exec("INSERT INTO ledger VALUES (1)")
		ctx, on := e.ctx(33), e.guard.On(resource)
		insert := e.sql("INSERT INTO ledger VALUES (1)")
		rows, err := on.Query(ctx, insert+" RETURNING id")
		require.NoError(t, err, "it comes with the commit")
		rows.Close()
		_, execErr := on.Exec(ctx, insert)
		for name, err := range map[string]error{
			"Exec": execErr, "Query": rows.Err(), "SendBatch": on.SendBatch(ctx, batch(insert)).Close(),
			"QueryRow": on.QueryRow(ctx, insert+" RETURNING id").Scan(nil),
			"Update":   e.guard.Update(ctx, resource, func(tx pgx.Tx) error { _, err := tx.Exec(ctx, insert); return err }),
		} {
			require.Equal(t, "23505", outcomeCode(err), name)
			require.Empty(t, outcomes(err), name)
		}
		require.Equal(t, 1, query[int](e, "SELECT count(*) FROM ledger"))
	})
	inEnv(t, "named arguments work, options are refused", func(t *testing.T, e *env) {
		ctx, on := e.ctx(33), e.guard.On(resource)
		set := e.sql("UPDATE accounts SET writer = @who WHERE id = 42")
		_, err := on.Exec(ctx, set, pgx.NamedArgs{"who": "named"})
		require.NoError(t, err)
		require.Equal(t, "named", e.writer())
		_, err = on.Exec(ctx, set, pgx.StrictNamedArgs{"name": "x"})
		require.ErrorContains(t, err, "who")
		require.Empty(t, outcomes(err), "nothing was sent")
		for _, option := range []any{pgx.QueryExecModeExec, pgx.QueryResultFormats{1}, pgx.QueryResultFormatsByOID{}} {
			_, err = on.Exec(ctx, "SELECT $1", option, "x")
			require.ErrorContains(t, err, "sqlguard: a guarded statement takes no pgx.Query")
			_, err = on.Query(ctx, "SELECT $1", pgx.NamedArgs{}, option)
			require.ErrorContains(t, err, "takes no pgx.Query")
		}
	})
	inEnv(t, "an argument that cannot be encoded is an ordinary error", func(t *testing.T, e *env) {
		for _, mode := range modes {
			pool, _ := wired(t, 1, inMode(mode))
			on := e.by(pool).On(resource)
			_, err := on.Exec(e.ctx(33), e.sql("UPDATE accounts SET balance = $1"), struct{ a chan int }{})
			require.Error(t, err, mode)
			require.Empty(t, outcomes(err), mode)
			_, err = on.Exec(e.ctx(33), "SELECT 1")
			require.NoError(t, err, mode)
		}
	})
	inEnv(t, "statements about transactions leave no broken connection", func(t *testing.T, e *env) {
		for _, mode := range modes {
			pool, w := wired(t, 1, inMode(mode))
			on := e.by(pool).On(resource)
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
	inEnv(t, "copied rows are guarded", func(t *testing.T, e *env) {
		e.admitted(34)
		n, err := e.guard.On(resource).CopyFrom(e.ctx(33), pgx.Identifier{e.schema, "accounts"}, []string{"id"}, pgx.CopyFromRows([][]any{{int64(44)}}))
		require.ErrorIs(t, err, guard.ErrStale)
		require.Zero(t, n)
		n, err = e.guard.On(resource).CopyFrom(e.ctx(34), pgx.Identifier{e.schema, "accounts"}, []string{"id"}, pgx.CopyFromRows([][]any{{int64(44)}}))
		require.NoError(t, err)
		require.Equal(t, int64(1), n)
	})
}

func TestStatementsThatCannotCommit(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{
		"SELECT f(1)", "select*from x", "(SELECT 1) UNION (SELECT 2)", "\r\n\t\f insert into x values (1)", "UPDATE x SET y = 1",
		"delete from x where y = $1", "MERGE INTO x USING y ON (x.id = y.id) WHEN MATCHED THEN DO NOTHING", "WITH a AS (SELECT 1) SELECT * FROM a",
		"VALUES (1)", "TABLE x ORDER BY y, z", "-- name: Get :one\nSELECT * FROM x", "-- a\r-- b\r\nSELECT * FROM x",
		"/* a /* b */ CALL */ SELECT * FROM x", "/**/ /*/ */ SELECT * FROM x", "/* -- */ SELECT (1)",
		";SELECT (1)", "\vSELECT (1)",
	} {
		require.True(t, sqlguard.CannotCommit(sql), "%q", sql)
	}
	for _, sql := range []string{
		"CALL p(1)", "DO $$ BEGIN COMMIT; END $$", "BEGIN; SELECT (1)", "COMMIT -- (", "EXECUTE q(1)", "EXPLAIN ANALYZE DELETE FROM x WHERE y = 1",
		"COPY x TO STDOUT (FORMAT csv)", "SET x = 1", "CREATE TABLE x AS SELECT * FROM y", "VACUUM (FULL) x", "LISTEN a -- (", "LOCK TABLE x -- *",
		"", "(", "=", "--", "-- (SELECT 1)", "/* SELECT (1)", "/* /* */ SELECT (1)",
		"/* /* */ SELECT ( */ CALL p()", "-- SELECT (\rCALL p()", "/* SELECT ( */ CALL p()", "--\rCALL p((\nSELECT 1))",
		"update_account", "select_(1)", "SELECTS * FROM x", "SELECTé(1)", "select$1", "delete old rows", "SELECT 1", `"select"(1)`, "U&\"a\"(1)", "\ufeffSELECT (1)",
	} {
		require.False(t, sqlguard.CannotCommit(sql), "%q", sql)
	}
}

// twoWrites is a procedure that commits between its writes, and waits for the test.
func twoWrites(e *env) string {
	return "CREATE PROCEDURE " + e.schema + `.two_writes() LANGUAGE plpgsql AS $$ BEGIN
		UPDATE accounts SET writer = 'A first' WHERE id = 42;
		COMMIT;
		PERFORM pg_advisory_xact_lock(hashtext('` + e.schema + `'));
		UPDATE accounts SET writer = 'A second' WHERE id = 42; END $$`
}

// A CALL commits nothing through On, in any disguise.
//
// hazard G24
func TestNoCallRunsInAnImplicitTransaction(t *testing.T) {
	t.Parallel()
	inEnv(t, "the twin: one in an implicit transaction commits, and what follows its COMMIT is unguarded", func(t *testing.T, e *env) {
		e.exec(twoWrites(e))
		gate := e.open(pgx.TxOptions{})
		_, err := gate.Exec(t.Context(), "SELECT pg_advisory_xact_lock(hashtext($1))", e.schema)
		require.NoError(t, err)
		done := async(func() error {
			b := &pgx.Batch{}
			b.Queue("SELECT "+e.schema+".admit($1, $2, $3)", resource, 33, "h33")
			b.Queue("CALL " + e.schema + ".two_writes()")
			return e.pool.SendBatch(e.bounded(), b).Close()
		})
		e.inCommit()
		require.NoError(t, e.guard.Update(e.ctx(34), resource, e.write(t.Context(), "B")))
		require.NoError(t, gate.Rollback(t.Context()))
		require.NoError(t, await(t, done))
		require.Equal(t, "A second", e.writer(), "the twin must let the stale write in")
	})
	inEveryMode(t, modes, func(t *testing.T, mode pgx.QueryExecMode) {
		e := newEnv(t)
		e.exec(twoWrites(e))
		pool, w := wired(t, 1, inMode(mode))
		conn := acquire(t, pool)
		call := "CALL " + e.schema + ".two_writes()"
		for _, name := range []string{"purge", "delete old rows", "SELECT"} {
			_, err := conn.Conn().Prepare(t.Context(), name, call)
			require.NoError(t, err)
		}
		on := e.by(conn).On(resource)
		statements := map[string][]any{
			call: nil, "DO $$ BEGIN COMMIT; END $$": nil, "/* /* */ SELECT ( */ " + call: nil, "-- SELECT (\r" + call: nil, "\n/* SELECT ( */\r\n" + call: nil,
			"SELECT * FROM rewritten": {rewriting(call)}, "SELECT @a, * FROM rewritten": {pgx.NamedArgs{"a": 1}, rewriting(call)},
		}
		if mode != pgx.QueryExecModeSimpleProtocol { // which has no names
			statements["purge"], statements["delete old rows"], statements["SELECT"] = nil, nil, nil
		}
		for sql, args := range statements {
			_, err := on.Exec(e.ctx(33), sql, args...)
			require.Equal(t, "2D000", outcomeCode(err), "%s: %v", sql, err)
			require.Empty(t, outcomes(err), sql)
		}
		require.Empty(t, e.writer())
		require.Equal(t, int64(1), w.dials.Load())
	})
}

// Errors that occur only at the commit are returned at the batch's end.
func TestCommitOfAnImplicitTransaction(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		inEnv(t, "that fails is the statement's error, and costs nothing, in mode "+mode.String(), func(t *testing.T, e *env) {
			e.exec("CREATE TABLE ledger (id bigint UNIQUE DEFERRABLE INITIALLY DEFERRED)")
			e.exec("INSERT INTO ledger VALUES (1)")
			pool, w := wired(t, 1, inMode(mode))
			on := e.by(pool).On(resource)
			insert, ctx := e.sql("INSERT INTO ledger VALUES ($1) RETURNING id"), e.ctx(33)
			e.admitted(33)
			for name, call := range map[string]func() error{
				"Exec":     func() error { _, err := on.Exec(ctx, insert, 1); return err },
				"QueryRow": func() error { return on.QueryRow(ctx, insert, 1).Scan(nil) },
				"Query": func() error {
					rows, err := on.Query(ctx, insert, 1)
					if err != nil {
						return err
					}
					_, err = pgx.CollectRows(rows, pgx.RowTo[int64])
					return err
				},
			} {
				trips := w.during(func() {
					err := call()
					require.Equal(t, "23505", outcomeCode(err), "%s: %v", name, err)
					require.Empty(t, outcomes(err), name)
				})
				switch mode {
				case pgx.QueryExecModeDescribeExec: // it prepares each time
				case pgx.QueryExecModeSimpleProtocol:
					require.Equal(t, int64(1), trips, "%s: its COMMIT has ended the transaction", name)
				default:
					require.Equal(t, int64(1), trips, name)
				}
				require.Zero(t, pool.Stat().AcquiredConns())
			}
			require.Equal(t, 1, query[int](e, "SELECT count(*) FROM ledger"))
			_, err := on.Exec(ctx, insert, 2)
			require.NoError(t, err)
			require.Equal(t, 2, query[int](e, "SELECT count(*) FROM ledger"))
			require.Equal(t, int64(1), w.dials.Load())
		})
	}
	inEnv(t, "whose session was ended meanwhile is unknown", func(t *testing.T, e *env) {
		letGo := e.slowCommit()
		pool, _ := wired(t, 1)
		conn := acquire(t, pool)
		done := async(func() error {
			return doors(e, e.by(conn))["On.Exec"](e.ctx(33), "A")
		})
		e.inCommit()
		e.exec("SELECT pg_terminate_backend($1)", conn.Conn().PgConn().PID())
		err := await(t, done)
		letGo()
		require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "%v", err)
		require.Empty(t, e.writer())
	})
	inEnv(t, "is none while the connection is in a transaction", func(t *testing.T, e *env) {
		pool, _ := wired(t, 1)
		conn := acquire(t, pool)
		_, err := conn.Exec(t.Context(), "BEGIN")
		require.NoError(t, err)
		_, err = e.by(conn).On(resource).Exec(e.ctx(33), e.sql("UPDATE accounts SET writer = 'A'"))
		require.ErrorContains(t, err, "inside a transaction already")
	})
	inEnv(t, "uses the session's transaction settings", func(t *testing.T, e *env) {
		e.admitted(33)
		set := e.sql("UPDATE accounts SET writer = current_setting('transaction_isolation')")
		for _, level := range []string{"read committed", "repeatable read", "serializable"} {
			pool, w := wired(t, 1, withSetting("default_transaction_isolation", level))
			on := e.by(pool).On(resource)
			require.Equal(t, int64(1), w.during(func() {
				_, err := on.Exec(e.ctx(33), set)
				require.NoError(t, err)
			}))
			require.Equal(t, level, e.writer())
			_, err := on.Exec(e.ctx(32), set)
			require.ErrorIs(t, err, guard.ErrStale, level)
		}
		pool, _ := wired(t, 1, withSetting("default_transaction_read_only", "on"))
		_, err := e.by(pool).On(resource).Exec(e.ctx(33), set)
		require.Equal(t, "25006", outcomeCode(err))
		require.Empty(t, outcomes(err))
	})
	inEnv(t, "differs from an argument that cannot be sent, also without an admission", func(t *testing.T, e *env) {
		for _, mode := range modes {
			pool, _ := wired(t, 1, inMode(mode))
			g, _ := e.reporting(pool)
			on := g.On(resource)
			set := e.sql("UPDATE accounts SET writer = $1 RETURNING writer")
			_, err := on.Exec(e.bounded(), set, struct{ a chan int }{})
			require.Error(t, err, mode)
			require.Empty(t, outcomes(err), mode)
			require.Error(t, on.QueryRow(e.bounded(), set, struct{ a chan int }{}).Scan(nil), mode)
			require.ErrorIs(t, on.QueryRow(e.bounded(), set, mode.String()).Scan(new(int64)), guard.ErrUnknown, mode)
			require.Equal(t, mode.String(), e.writer())
		}
	})
	inEnv(t, "is not left to a DB of an unknown type", func(t *testing.T, e *env) {
		e.admitted(34)
		pool, w := wired(t, 1)
		on := e.by(only{pool}).On(resource)
		set := e.sql("UPDATE accounts SET writer = 'x' WHERE id = 42")
		require.Equal(t, int64(1), w.during(func() { _, err := on.Exec(e.ctx(34), set); require.NoError(t, err) }))
		require.Equal(t, int64(2), w.during(func() { _, err := on.Exec(e.ctx(33), set); require.ErrorIs(t, err, guard.ErrStale) }))
	})
}

// only hides a DB's other methods.
type only struct{ sqlguard.DB }
