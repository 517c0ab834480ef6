package sqlpoint_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/heard"
	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
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
	"a write of none": {func(ctx context.Context, db *sql.DB, insert string) error {
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
	"a transaction that nobody listens to at first": {func(ctx context.Context, db *sql.DB, insert string) error {
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
	"a write behind a transaction that nobody listens to": {func(ctx context.Context, db *sql.DB, insert string) error {
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
					for range 2 { // with the driver's statement prepared, too
						id++
						var h heard.Record
						before := e.notes(t)
						err := c.do(h.Listen(t.Context()), e.told, e.insert(id))
						require.Equal(t, c.fails, err != nil, "%v", err)
						require.Equal(t, c.steps, h.Transactions())
						require.Equal(t, c.wrote, e.notes(t)-before)
					}
				})
			}
		})
	}
}

// While a writer is held up at a step, others see what the step's name says.
func TestAStepIsWhereItsNameSays(t *testing.T) {
	t.Parallel()
	for name, newEnv := range databases {
		for way, want := range map[string]map[point.Step][]int{
			"Exec":          {point.Begin: {0}, point.Applied: {1}},
			"QueryRow":      {point.Begin: {0}, point.Applied: {1}},
			"a transaction": {point.Begin: {0}, point.Statement: {0, 0}, point.Commit: {0}, point.Applied: {1}},
		} {
			t.Run(way+" on "+name, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				arrived, goOn := make(chan point.Step), make(chan bool)
				h := heard.Record{Look: func(step point.Step) { arrived <- step; <-goOn }}
				done := make(chan error, 1)
				go func() {
					done <- ways[way].do(h.Listen(t.Context()), e.told, e.insert(1))
					close(arrived)
				}()
				seen := map[point.Step][]int{}
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
	var told []string
	ctx := point.Listen(t.Context(), func(ctx context.Context, step point.Step, _ any) {
		told = append(told, fmt.Sprint(step, ctx.Value(name{})))
	})
	under := func(s string) context.Context { return context.WithValue(ctx, name{}, s) }
	require.NoError(t, inTx(under("a"), e.told, func(tx *sql.Tx) error {
		return errors.Join(run(under("b"), tx, e.insert(1)), run(context.Background(), tx, e.insert(2)))
	}))
	require.Equal(t, []string{"begina", "statementb", "statementb", "commitb", "appliedb"}, told)
}

// Beside a guard, each transaction is told once, under one key.
func TestUnderAGuard(t *testing.T) {
	t.Parallel()
	e := onSQLite(t)
	g := &stdsql.Guard{DB: e.told, Dialect: stdsql.SQLite}
	tok := token.Token{Resource: "notes", Number: 33, Holder: "a"}
	var h heard.Record
	ctx := h.Listen(token.NewContext(t.Context(), tok))
	require.NoError(t, g.Admit(ctx, tok))
	require.NoError(t, g.Update(ctx, "notes", func(tx *sql.Tx) error { return run(ctx, tx, e.insert(1)) }))
	require.ErrorIs(t, g.Update(ctx, "notes", func(*sql.Tx) error { return errMine }), errMine)
	require.Equal(t, []string{"begin undone", "begin admitted statement commit applied", "begin admitted undone"}, h.Transactions())

	h.Steps, h.Keys = nil, nil
	require.NoError(t, inTx(ctx, e.told, func(tx *sql.Tx) error {
		return errors.Join(g.Join(ctx, tx, "notes"), run(ctx, tx, e.insert(2)))
	}))
	require.Equal(t, []point.Step{point.Begin, point.Admitted, point.Statement, point.Commit, point.Applied}, h.Steps)
}

func TestWhatIsUnderneathCanBeReached(t *testing.T) {
	t.Parallel()
	require.IsType(t, &stdlib.Conn{}, unwrap(t, onPostgres(t).told))
}
