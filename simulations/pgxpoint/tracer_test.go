package pgxpoint_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/test/hooktest"
	"github.com/fencepost/fencepost/simulations/pgxpoint"
)

var modes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

// way is a way to use a database, on a traced pool. insert gets a new unique id each time.
type way func(ctx context.Context, pool *pgxpool.Pool, insert string) error

func in(do func(ctx context.Context, tx pgx.Tx, insert string) error) way {
	return func(ctx context.Context, pool *pgxpool.Pool, insert string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return do(ctx, tx, insert) })
	}
}

func exec(ctx context.Context, tx interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, sql string) error {
	rows, err := tx.Query(ctx, sql)
	if err != nil {
		return err
	}
	rows.Close()
	return rows.Err()
}

// batch sends statements at once.
func batch(texts func(insert string) []string) way {
	return func(ctx context.Context, pool *pgxpool.Pool, insert string) error {
		b := &pgx.Batch{}
		for _, text := range texts(insert) {
			b.Queue(text)
		}
		return pool.SendBatch(ctx, b).Close()
	}
}

var ways = map[string]struct {
	do    way
	fails bool
	steps []string
	wrote int
}{
	"Exec": {func(ctx context.Context, pool *pgxpool.Pool, insert string) error {
		_, err := pool.Exec(ctx, insert)
		return err
	},
		false, []string{"begin applied"}, 1},
	"Query": {func(ctx context.Context, pool *pgxpool.Pool, insert string) error { return exec(ctx, pool, insert) },
		false, []string{"begin applied"}, 1},
	"QueryRow": {func(ctx context.Context, pool *pgxpool.Pool, insert string) error {
		return pool.QueryRow(ctx, insert+" RETURNING id").Scan(nil)
	}, false, []string{"begin applied"}, 1},
	"QueryRow, whose row cannot be scanned": {func(ctx context.Context, pool *pgxpool.Pool, insert string) error {
		return pool.QueryRow(ctx, insert+" RETURNING 'a'").Scan(new(int))
	}, true, []string{"begin applied"}, 1},
	"a read":  {func(ctx context.Context, pool *pgxpool.Pool, _ string) error { return exec(ctx, pool, "SELECT 1") }, false, []string{"begin undone"}, 0},
	"a ping":  {func(ctx context.Context, pool *pgxpool.Pool, _ string) error { return pool.Ping(ctx) }, false, nil, 0},
	"nothing": {func(ctx context.Context, pool *pgxpool.Pool, _ string) error { return exec(ctx, pool, "-- nothing") }, false, nil, 0},
	"a write of no rows": {func(ctx context.Context, pool *pgxpool.Pool, insert string) error {
		return errors.Join(exec(ctx, pool, insert), exec(ctx, pool, insert+" ON CONFLICT DO NOTHING"))
	}, false, []string{"begin applied", "begin undone"}, 1},
	"an error": {func(ctx context.Context, pool *pgxpool.Pool, insert string) error {
		return exec(ctx, pool, insert+" RETURNING 1/0")
	}, true, []string{"begin undone"}, 0},
	"an argument that cannot be encoded": {func(ctx context.Context, pool *pgxpool.Pool, insert string) error {
		_, err := pool.Exec(ctx, insert+" RETURNING $1::int", make(chan int))
		return err
	}, true, []string{"begin undone"}, 0},
	"a transaction": {in(func(ctx context.Context, tx pgx.Tx, insert string) error {
		return errors.Join(exec(ctx, tx, "SELECT 1"), exec(ctx, tx, insert))
	}), false, []string{"begin statement statement commit applied"}, 1},
	"a transaction that only reads": {in(func(ctx context.Context, tx pgx.Tx, _ string) error { return exec(ctx, tx, "SELECT 1") }),
		false, []string{"begin statement commit undone"}, 0},
	"a transaction that is rolled back": {in(func(ctx context.Context, tx pgx.Tx, insert string) error {
		return errors.Join(exec(ctx, tx, insert), errMine)
	}),
		true, []string{"begin statement undone"}, 0},
	"a transaction that is rolled back under another context": {func(ctx context.Context, pool *pgxpool.Pool, insert string) error {
		tx, err := pool.Begin(ctx)
		return errors.Join(err, exec(ctx, tx, insert), tx.Rollback(context.Background()))
	}, false, []string{"begin statement undone"}, 0},
	"a transaction that failed": {func(ctx context.Context, pool *pgxpool.Pool, insert string) error {
		tx, err := pool.Begin(ctx)
		return errors.Join(err, exec(ctx, tx, insert), exec(ctx, tx, "SELECT 1/0"), tx.Commit(ctx))
	}, true, []string{"begin statement statement commit undone"}, 0},
	"a transaction that the pool finds open": {func(ctx context.Context, pool *pgxpool.Pool, insert string) error {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		return errors.Join(exec(ctx, conn, "BEGIN"), exec(ctx, conn, insert))
	}, false, []string{"begin statement undone"}, 0},
	"a constraint that is looked at last": {func(ctx context.Context, pool *pgxpool.Pool, _ string) error {
		return exec(ctx, pool, orphan(ctx))
	}, true, []string{"begin undone"}, 0},
	"a constraint that COMMIT looks at": {in(func(ctx context.Context, tx pgx.Tx, _ string) error { return exec(ctx, tx, orphan(ctx)) }),
		true, []string{"begin statement commit undone"}, 0},
	"a savepoint": {in(func(ctx context.Context, tx pgx.Tx, insert string) error {
		err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return errors.Join(exec(ctx, tx, insert), errMine) })
		if !errors.Is(err, errMine) {
			return err
		}
		return exec(ctx, tx, insert)
	}), false, []string{"begin statement statement commit applied"}, 1},
	"a batch": {batch(func(insert string) []string { return []string{"SELECT 1", insert} }), false, []string{"begin applied"}, 1},
	"a batch that is read row by row": {func(ctx context.Context, pool *pgxpool.Pool, insert string) error {
		b := &pgx.Batch{}
		b.Queue(insert + " RETURNING id").QueryRow(func(row pgx.Row) error { return row.Scan(nil) })
		return pool.SendBatch(ctx, b).Close()
	}, false, []string{"begin applied"}, 1},
	"a batch that fails": {batch(func(insert string) []string { return []string{insert, "SELECT 1/(SELECT 0)"} }), true, []string{"begin undone"}, 0},
	"a WITH that writes, before a SELECT": {func(ctx context.Context, pool *pgxpool.Pool, insert string) error {
		return exec(ctx, pool, "WITH made AS ("+insert+" RETURNING 1) SELECT count(*) FROM made")
	}, false, []string{"begin applied"}, 1},
	"a WITH that writes, in a transaction": {in(func(ctx context.Context, tx pgx.Tx, insert string) error {
		return exec(ctx, tx, "WITH made AS ("+insert+" RETURNING 1) SELECT FROM made")
	}), false, []string{"begin statement commit applied"}, 1},
	"a WITH that writes, in a batch": {batch(func(insert string) []string {
		return []string{"SELECT 1", "WITH made AS (" + insert + " RETURNING 1) SELECT FROM made"}
	}), false, []string{"begin applied"}, 1},
	"a WITH that only reads": {func(ctx context.Context, pool *pgxpool.Pool, _ string) error {
		return exec(ctx, pool, "WITH one AS (SELECT 1) SELECT FROM one")
	}, false, []string{"begin undone"}, 0},
	"a batch that is a whole transaction": {batch(func(insert string) []string { return []string{"begin", insert, "commit"} }), false, []string{"begin applied"}, 1},
	"a batch that fails after its COMMIT": {batch(func(insert string) []string { return []string{"begin", insert, "commit", "SELECT 1/(SELECT 0)"} }), true, []string{"begin applied"}, 1},
	"a batch that begins one": {func(ctx context.Context, pool *pgxpool.Pool, insert string) error {
		b := &pgx.Batch{}
		b.BeginTx(pgx.TxOptions{})
		b.Queue(insert)
		results := pool.SendBatch(ctx, b)
		return errors.Join(results.Close(), results.Tx().Commit(ctx))
	}, false, []string{"begin commit applied"}, 1},
	"a batch that ends one": {func(ctx context.Context, pool *pgxpool.Pool, insert string) error {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		b := &pgx.Batch{}
		b.Queue(insert)
		b.Queue("commit")
		return errors.Join(exec(ctx, conn, "begin"), conn.SendBatch(ctx, b).Close())
	}, false, []string{"begin commit applied"}, 1},
	"COPY": {func(ctx context.Context, pool *pgxpool.Pool, _ string) error {
		_, err := pool.CopyFrom(ctx, pgx.Identifier{schemaOf(ctx), "notes"}, []string{"id"}, pgx.CopyFromRows([][]any{{-1}}))
		return err
	}, false, []string{"begin applied"}, 1},
	"COPY in a transaction": {in(func(ctx context.Context, tx pgx.Tx, _ string) error {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{schemaOf(ctx), "notes"}, []string{"id"}, pgx.CopyFromRows([][]any{{-1}}))
		return err
	}), false, []string{"begin statement commit applied"}, 1},
	"two statements": {func(ctx context.Context, pool *pgxpool.Pool, insert string) error {
		return errors.Join(exec(ctx, pool, insert), exec(ctx, pool, "SELECT 1"))
	}, false, []string{"begin applied", "begin undone"}, 1},
}

type schemaKey struct{}

func schemaOf(ctx context.Context) string { return ctx.Value(schemaKey{}).(string) }

func orphan(ctx context.Context) string {
	return "INSERT INTO " + pgx.Identifier{schemaOf(ctx), "notes"}.Sanitize() + " (id, twin) VALUES (-3, -4)"
}

func TestTracer(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run("in mode "+mode.String(), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, mode)
			ctx := context.WithValue(t.Context(), schemaKey{}, e.schema)
			id := 0
			for name, c := range ways {
				t.Run(name, func(t *testing.T) {
					for range 2 { // also with the prepared statement
						var h hooktest.Record
						before := e.notes()
						id++
						err := c.do(h.Listen(ctx), e.traced, e.sql(fmt.Sprintf("INSERT INTO %%s.notes (id) VALUES (%d)", id)))
						require.Equal(t, c.fails, err != nil, "%v", err)
						require.Equal(t, c.steps, h.Transactions())
						require.Equal(t, c.wrote, e.notes()-before)
						_, err = e.plain.Exec(ctx, e.sql("DELETE FROM %s.notes WHERE id = -1"))
						require.NoError(t, err)
					}
				})
			}
		})
	}
}

func TestABrokenConnection(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		for name, c := range map[string]struct {
			cutAt, do string
			steps     []string
		}{
			"after COMMIT": {"commit", "a transaction", []string{"begin statement statement commit unknown"}},
			"after COMMIT, where nothing was written": {"commit", "a transaction that only reads", []string{"begin statement commit undone"}},
			"after a write":                  {"INSERT", "Exec", []string{"begin unknown"}},
			"after a write in a transaction": {"INSERT", "a transaction", []string{"begin statement statement undone"}},
			"after a batch":                  {"INSERT", "a batch", []string{"begin unknown"}},
			"after a read":                   {"SELECT 1", "a read", []string{"begin undone"}},
		} {
			t.Run(fmt.Sprintf("%s in mode %s", name, mode), func(t *testing.T) {
				t.Parallel()
				e := newEnv(t, mode)
				e.cutAt = c.cutAt
				e.dropsReplies.Store(true)
				var h hooktest.Record
				require.Error(t, ways[c.do].do(h.Listen(t.Context()), e.traced, e.sql("INSERT INTO %s.notes (id) VALUES (1)")))
				require.Equal(t, c.steps, h.Transactions())
			})
		}
	}
}

// While a writer is stopped at a step, other sessions see what the step's name means.
func TestAStepIsWhereItsNameSays(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]map[failpoint.Step][]int{
		"Exec":          {failpoint.Begin: {0}, failpoint.Applied: {1}},
		"a batch":       {failpoint.Begin: {0}, failpoint.Applied: {1}},
		"a transaction": {failpoint.Begin: {0}, failpoint.Statement: {0, 0}, failpoint.Commit: {0}, failpoint.Applied: {1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, pgx.QueryExecModeCacheStatement)
			arrived, goOn := make(chan failpoint.Step), make(chan bool)
			h := hooktest.Record{OnStep: func(step failpoint.Step) { arrived <- step; <-goOn }}
			done := make(chan error, 1)
			go func() {
				done <- ways[name].do(h.Listen(t.Context()), e.traced, e.sql("INSERT INTO %s.notes (id) VALUES (1)"))
				close(arrived)
			}()
			seen := map[failpoint.Step][]int{}
			for step := range arrived {
				seen[step] = append(seen[step], e.notes())
				goOn <- true
			}
			require.NoError(t, <-done)
			require.Equal(t, at, seen)
		})
	}
}

func TestAStepIsToldWithTheContextOfItsStatement(t *testing.T) {
	t.Parallel()
	e := newEnv(t, pgx.QueryExecModeCacheStatement)
	type name struct{}
	var reported []string
	ctx := failpoint.Listen(t.Context(), failpoint.Func(func(ctx context.Context, step failpoint.Step, _ any) {
		reported = append(reported, fmt.Sprint(step, ctx.Value(name{})))
	}))
	under := func(s string) context.Context { return context.WithValue(ctx, name{}, s) }
	tx, err := e.traced.Begin(under("a"))
	require.NoError(t, err)
	require.NoError(t, exec(under("b"), tx, "SELECT 1"))
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, []string{"begina", "statementb", "undoneb"}, reported)
}

func TestWithoutAListenerNothingIsAllocated(t *testing.T) {
	e := newEnv(t, pgx.QueryExecModeCacheStatement)
	conn, err := e.traced.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	ctx, tracer := t.Context(), pgxpoint.Tracer{}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		require.Equal(t, ctx, tracer.TraceQueryStart(ctx, conn.Conn(), pgx.TraceQueryStartData{SQL: "INSERT"}))
		tracer.TraceQueryEnd(ctx, conn.Conn(), pgx.TraceQueryEndData{})
	}))
}

func TestBesideAnotherTracer(t *testing.T) {
	t.Parallel()
	e := newEnv(t, pgx.QueryExecModeCacheStatement)
	config := e.traced.Config()
	config.ConnConfig.Tracer = multitracer.New(&counting{}, pgxpoint.Tracer{})
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer pool.Close()
	for _, name := range []string{"a transaction", "a batch", "a transaction that the pool finds open"} {
		var h hooktest.Record
		require.NoError(t, ways[name].do(h.Listen(t.Context()), pool, e.sql("INSERT INTO %s.notes (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET text = 'x'")))
		require.Equal(t, ways[name].steps, h.Transactions())
	}
}

type counting struct{ calls int }

func (c *counting) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (c *counting) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) { c.calls++ }
