package sqlpoint_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/test/hooktest"
	"github.com/fencepost/fencepost/token"
)

// ways of using a database.
var ways = map[string]struct {
	do    func(ctx context.Context, db *sql.DB, insert string) error
	fails bool
	steps []string
	wrote int
}{
	"Exec": {func(ctx context.Context, db *sql.DB, insert string) error { return run(ctx, db, insert) },
		false, []string{"begin applied"}, 1},
	"a prepared statement": {func(ctx context.Context, db *sql.DB, insert string) error {
		prepared, err := db.PrepareContext(ctx, insert)
		if err != nil {
			return err
		}
		defer prepared.Close()
		_, err = prepared.ExecContext(ctx)
		return err
	}, false, []string{"begin applied"}, 1},
	"QueryRow": {func(ctx context.Context, db *sql.DB, insert string) error {
		return db.QueryRowContext(ctx, insert+" RETURNING id").Scan(new(int))
	}, false, []string{"begin applied"}, 1},
	"a prepared query": {func(ctx context.Context, db *sql.DB, insert string) error {
		prepared, err := db.PrepareContext(ctx, insert+" RETURNING id")
		if err != nil {
			return err
		}
		defer prepared.Close()
		return prepared.QueryRowContext(ctx).Scan(new(int))
	}, false, []string{"begin applied"}, 1},
	"a write of no rows": {func(ctx context.Context, db *sql.DB, insert string) error {
		return run(ctx, db, insert+" ON CONFLICT DO NOTHING")
	}, false, []string{"begin applied"}, 1},
	"the same write again": {func(ctx context.Context, db *sql.DB, insert string) error {
		return errors.Join(run(ctx, db, insert), run(ctx, db, insert+" ON CONFLICT DO NOTHING"))
	}, false, []string{"begin applied", "begin undone"}, 1},
	"a constraint": {func(ctx context.Context, db *sql.DB, insert string) error {
		return errors.Join(run(ctx, db, insert), run(ctx, db, insert))
	}, true, []string{"begin applied", "begin undone"}, 1},
	"a read": {func(ctx context.Context, db *sql.DB, _ string) error {
		return db.QueryRowContext(ctx, "SELECT 1").Scan(new(int))
	},
		false, []string{"begin undone"}, 0},
	"a ping": {func(ctx context.Context, db *sql.DB, _ string) error { return db.PingContext(ctx) }, false, nil, 0},
	"a transaction": {func(ctx context.Context, db *sql.DB, insert string) error {
		return inTx(ctx, db, func(tx *sql.Tx) error {
			return errors.Join(tx.QueryRowContext(ctx, "SELECT 1").Scan(new(int)), run(ctx, tx, insert))
		})
	}, false, []string{"begin statement statement commit applied"}, 1},
	"a transaction without a listener at first": {func(ctx context.Context, db *sql.DB, insert string) error {
		return inTx(context.Background(), db, func(tx *sql.Tx) error { return run(ctx, tx, insert) })
	}, false, []string{"begin commit applied"}, 1},
	"a transaction that only reads": {func(ctx context.Context, db *sql.DB, _ string) error {
		return inTx(ctx, db, func(tx *sql.Tx) error { return tx.QueryRowContext(ctx, "SELECT 1").Scan(new(int)) })
	}, false, []string{"begin statement commit undone"}, 0},
	"a transaction that is rolled back": {func(ctx context.Context, db *sql.DB, insert string) error {
		return inTx(ctx, db, func(tx *sql.Tx) error { return errors.Join(run(ctx, tx, insert), errMine) })
	}, true, []string{"begin statement undone"}, 0},
	"a transaction by statements": {func(ctx context.Context, db *sql.DB, insert string) error {
		return onConn(ctx, db, func(conn *sql.Conn) error {
			return errors.Join(run(ctx, conn, "BEGIN"), run(ctx, conn, insert), run(ctx, conn, "COMMIT"))
		})
	}, false, []string{"begin statement commit applied"}, 1},
	"a transaction that is rolled back by a statement": {func(ctx context.Context, db *sql.DB, insert string) error {
		return onConn(ctx, db, func(conn *sql.Conn) error {
			return errors.Join(run(ctx, conn, "BEGIN"), run(ctx, conn, insert), run(ctx, conn, "ROLLBACK"))
		})
	}, false, []string{"begin statement undone"}, 0},
	"a write after a transaction without a listener": {func(ctx context.Context, db *sql.DB, insert string) error {
		return onConn(ctx, db, func(conn *sql.Conn) error {
			plain := context.Background()
			return errors.Join(run(plain, conn, "BEGIN"), run(plain, conn, "COMMIT"), run(ctx, conn, insert))
		})
	}, false, []string{"begin applied"}, 1},
	"a savepoint": {func(ctx context.Context, db *sql.DB, insert string) error {
		return inTx(ctx, db, func(tx *sql.Tx) error {
			return errors.Join(run(ctx, tx, "SAVEPOINT a"), run(ctx, tx, insert), run(ctx, tx, "ROLLBACK TO a"), run(ctx, tx, insert))
		})
	}, false, []string{"begin statement statement commit applied"}, 1},
}

func TestSteps(t *testing.T) {
	t.Parallel()
	for name, newEnv := range databases {
		t.Run("on "+name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			id := 0
			for name, c := range ways {
				t.Run(name, func(t *testing.T) {
					for range 2 { // also with the driver's prepared statement
						id++
						var h hooktest.Record
						before := e.notes(t)
						err := c.do(h.Listen(t.Context()), e.traced, e.insert(id))
						require.Equal(t, c.fails, err != nil, "%v", err)
						require.Equal(t, c.steps, h.Transactions())
						require.Equal(t, c.wrote, e.notes(t)-before)
					}
				})
			}
		})
	}
}

// While a writer is stopped at a step, other sessions see what the step's name means.
func TestAStepIsWhereItsNameSays(t *testing.T) {
	t.Parallel()
	for name, newEnv := range databases {
		for way, want := range map[string]map[failpoint.Step][]int{
			"Exec":          {failpoint.Begin: {0}, failpoint.Applied: {1}},
			"QueryRow":      {failpoint.Begin: {0}, failpoint.Applied: {1}},
			"a transaction": {failpoint.Begin: {0}, failpoint.Statement: {0, 0}, failpoint.Commit: {0}, failpoint.Applied: {1}},
		} {
			t.Run(way+" on "+name, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				arrived, goOn := make(chan failpoint.Step), make(chan bool)
				h := hooktest.Record{OnStep: func(step failpoint.Step) { arrived <- step; <-goOn }}
				done := make(chan error, 1)
				go func() {
					done <- ways[way].do(h.Listen(t.Context()), e.traced, e.insert(1))
					close(arrived)
				}()
				seen := map[failpoint.Step][]int{}
				for step := range arrived {
					seen[step] = append(seen[step], e.notes(t))
					goOn <- true
				}
				require.NoError(t, <-done)
				require.Equal(t, want, seen)
			})
		}
	}
}

func TestAStepIsToldWithTheContextOfItsStatement(t *testing.T) {
	t.Parallel()
	e := onSQLite(t)
	type name struct{}
	var reported []string
	ctx := failpoint.Listen(t.Context(), failpoint.Func(func(ctx context.Context, step failpoint.Step, _ any) {
		reported = append(reported, fmt.Sprint(step, ctx.Value(name{})))
	}))
	under := func(s string) context.Context { return context.WithValue(ctx, name{}, s) }
	require.NoError(t, inTx(under("a"), e.traced, func(tx *sql.Tx) error {
		return errors.Join(run(under("b"), tx, e.insert(1)), run(context.Background(), tx, e.insert(2)))
	}))
	require.Equal(t, []string{"begina", "statementb", "statementb", "commitb", "appliedb"}, reported)
}

// With a guard, each transaction is reported once, under one key.
func TestUnderAGuard(t *testing.T) {
	t.Parallel()
	e := onSQLite(t)
	g := e.guard()
	tok := token.Token{Resource: "notes", Number: 33, Holder: "a"}
	var h hooktest.Record
	ctx := h.Listen(token.NewContext(t.Context(), tok))
	require.NoError(t, g.Admit(ctx, tok))
	require.NoError(t, g.Update(ctx, "notes", func(tx *sql.Tx) error { return run(ctx, tx, e.insert(1)) }))
	require.ErrorIs(t, g.Update(ctx, "notes", func(*sql.Tx) error { return errMine }), errMine)
	require.Equal(t, []string{"begin undone", "begin admitted statement commit applied", "begin admitted undone"}, h.Transactions())

	h.Steps, h.Keys = nil, nil
	require.NoError(t, inTx(ctx, e.traced, func(tx *sql.Tx) error {
		return errors.Join(g.Join(ctx, tx, "notes"), run(ctx, tx, e.insert(2)))
	}))
	require.Equal(t, []failpoint.Step{failpoint.Begin, failpoint.Statement, failpoint.Admitted, failpoint.Statement, failpoint.Commit, failpoint.Applied}, h.Steps)
}

func TestWhatIsUnderneathCanBeReached(t *testing.T) {
	t.Parallel()
	require.IsType(t, &stdlib.Conn{}, unwrap(t, onPostgres(t).traced))
}

// joined records the steps of one transaction, and whether a guard was reported in it.
type joined struct {
	failpoint.Func
	keys []any
	in   []any
}

func (j *joined) Note(_ context.Context, fact any) {
	if fact, is := fact.(failpoint.Joined); is {
		j.in = append(j.in, fact.Key)
	}
}

// A transaction that the caller has begun under another context is the caller's, also
// if its first statement with a listener is the guard's.
func TestJoinInATransactionThatWasBegunUnheard(t *testing.T) {
	t.Parallel()
	e := onPostgres(t)
	var steps []failpoint.Step
	j := &joined{}
	var tx *sql.Tx
	j.Func = func(_ context.Context, step failpoint.Step, key any) {
		if key != any(tx) { // under which the guard reports
			steps, j.keys = append(steps, step), append(j.keys, key)
		}
	}
	ctx := failpoint.Listen(token.NewContext(t.Context(), token.Token{Resource: "notes", Number: 33, Holder: "a"}), j)

	require.NoError(t, inTx(t.Context(), e.traced, func(begun *sql.Tx) error {
		tx = begun
		return errors.Join(e.guard().Join(ctx, tx, "notes"), run(ctx, tx, e.insert(1)))
	}))

	require.Equal(t, []failpoint.Step{failpoint.Begin, failpoint.Statement, failpoint.Commit, failpoint.Applied}, steps)
	for _, key := range append(j.keys, j.in...) {
		require.Equal(t, j.keys[0], key)
	}
	require.NotEmpty(t, j.in)
}
