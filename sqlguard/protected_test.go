package sqlguard_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// protected returns an env whose accounts are a protected table, in that mode, or not if it
// is empty.
func protected(t testing.TB, mode string) *env {
	t.Helper()
	e := borrow(t, "protected, "+mode, func(e *env) {
		e.tables()
		if mode != "" {
			e.exec("SELECT "+e.schema+".protect($1, $2, $3)", e.schema+".accounts", "'account/' || id", mode)
		}
	})
	e.fill()
	return e
}

// unguarded checks that err is the refusal of a protected table, and not a guard's
// outcome: a caller that gets it has a bug.
func unguarded(t testing.TB, err error) pgconn.PgError {
	t.Helper()
	var refusal *pgconn.PgError
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, "ZF003", refusal.Code)
	require.Empty(t, outcomes(err))
	return *refusal
}

// Each write is a stale one of A that reaches the table without an admission. A guard in
// report-only mode admits no stale token, so an enforcing table refuses its writes.
// Therefore tables are protected after the guards enforce.
func TestUnadmittedWritesOfAProtectedTable(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]func(e *env) error{
		// hazard G15
		"by code without the guard": func(e *env) error {
			e.admitted(33, 34)
			require.NoError(e.t, e.guard.Update(e.ctx(34), resource, e.write(e.t.Context(), "B")))
			_, err := e.pool.Exec(e.ctx(33), e.sql("UPDATE accounts SET writer = 'late' WHERE id = 42"))
			return err
		},
		// hazard G24
		"after the savepoint of the admission was rolled back": func(e *env) error {
			e.admitted(33)
			tx, ctx := e.open(pgx.TxOptions{}), e.ctx(33)
			sp, err := tx.Begin(ctx)
			require.NoError(e.t, err)
			require.NoError(e.t, e.guard.Join(ctx, sp, resource))
			require.NoError(e.t, sp.Rollback(ctx))
			require.NoError(e.t, e.guard.Update(e.ctx(34), resource, e.write(ctx, "B")), "no writer is in any more")
			if err := e.write(ctx, "late")(tx); err != nil {
				return err
			}
			return tx.Commit(ctx)
		},
		"by every door of a guard that only reports": func(e *env) (err error) {
			g, _ := e.reporting(e.pool)
			refused := 0
			all := doors(e, g)
			for name, door := range all {
				e.exec("DELETE FROM marks")
				require.NoError(e.t, door(e.ctx(34), "B"), name)
				writer := "late"
				if late := door(e.ctx(33), "late"); late != nil {
					unguarded(e.t, late)
					writer, refused, err = "B", refused+1, late
				}
				require.Equal(e.t, writer, e.writer(), name)
			}
			require.Contains(e.t, []int{0, len(all)}, refused)
			return err
		},
	} {
		for mode, writer := range map[string]string{"enforce": "B", "report-only": "late", "": "late"} { // "" is the twin, which is not protected
			t.Run(name+", "+mode, func(t *testing.T) {
				t.Parallel()
				e := protected(t, mode)
				err := late(e)
				require.Equal(t, writer, e.writer())
				if writer == "late" {
					require.NoError(t, err, "the stale write is let in")
					return
				}
				got := unguarded(t, err)
				require.Equal(t, "Write through sqlguard: Update, On or Join for resource account/42 (a rowguard.Table wants Protected).", got.Hint)
				require.Equal(t, "accounts", got.TableName)
			})
		}
	}
}

func TestEveryDoorToAProtectedTable(t *testing.T) {
	t.Parallel()
	inEveryMode(t, modes, func(t *testing.T, mode pgx.QueryExecMode) {
		e := protected(t, "enforce")
		pool, w := wired(t, 1, inMode(mode))
		for name, door := range doors(e, e.by(pool)) {
			t.Run(name, func(t *testing.T) {
				e.exec("DELETE FROM marks")
				raises(t, e, door, func() string { return e.mark(resource) })
				_, err := pool.Exec(e.ctx(34), e.sql("UPDATE accounts SET writer = 'forgotten' WHERE id = 42"))
				unguarded(t, err)
				require.Equal(t, "34", e.writer())
			})
		}
		require.Equal(t, int64(1), w.dials.Load(), "no refusal costs a connection")
	})
}

func TestProtectedTableAndOtherResources(t *testing.T) {
	t.Parallel()
	e := protected(t, "enforce")
	pool, w := wired(t, 1)
	g := e.by(pool)
	e.admitted(33)
	ctx := e.ctx(33)
	const other = "UPDATE accounts SET writer = 'x' WHERE id = 43"
	_, err := g.On(resource).Exec(ctx, e.sql(other))
	require.Contains(t, unguarded(t, err).Detail, "resource account/43:")
	unguarded(t, g.Update(ctx, resource, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, e.sql(other))
		return err
	}))
	rows, err := g.On(resource).Query(ctx, e.sql(other+" RETURNING id"))
	if err == nil {
		rows.Close()
		err = rows.Err()
	}
	unguarded(t, err)
	require.Equal(t, int64(1), w.dials.Load())
	require.Empty(t, query[string](e, "SELECT writer FROM accounts WHERE id = 43"))

	require.NoError(t, g.Update(ctx, resource, func(tx pgx.Tx) error {
		sp, err := tx.Begin(ctx)
		require.NoError(t, err)
		_, err = sp.Exec(ctx, e.sql(other))
		unguarded(t, err)
		require.NoError(t, sp.Rollback(ctx))
		return e.write(ctx, "42")(tx)
	}), "what was refused behind a savepoint spoils nothing else")
	require.Equal(t, "42", e.writer())
}
