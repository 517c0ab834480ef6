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

// protected returns an env whose accounts are a protected table, in that mode.
func protected(t testing.TB, mode string) *env {
	t.Helper()
	e := borrow(t, "protected, "+mode, func(e *env) {
		e.tables()
		e.exec("SELECT "+e.schema+".protect($1, $2, $3)", e.schema+".accounts", "'account/' || id", mode)
	})
	e.fill()
	return e
}

// unguarded checks that err is the refusal of a protected table, and not a guard's
// outcome: a caller that gets it has a bug.
func unguarded(t *testing.T, err error) pgconn.PgError {
	t.Helper()
	var refusal *pgconn.PgError
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, "ZF003", refusal.Code)
	require.Empty(t, outcomes(err))
	return *refusal
}

// hazard G15
func TestForgottenGuard(t *testing.T) {
	t.Parallel()
	forgotten := func(e *env) error {
		e.admitted(33, 34)
		require.NoError(t, e.guard.Update(e.ctx(34), resource, e.write(t.Context(), "B")))
		_, err := e.pool.Exec(e.ctx(33), e.sql("UPDATE accounts SET writer = 'late A' WHERE id = 42"))
		return err
	}
	t.Run("a protected table refuses the write that went around it", func(t *testing.T) {
		t.Parallel()
		e := protected(t, "enforce")
		got := unguarded(t, forgotten(e))
		require.Equal(t, "Write through sqlguard: Update, On or Join for resource account/42 (a rowguard.Table wants Protected).", got.Hint)
		require.Equal(t, "accounts", got.TableName)
		require.Equal(t, "B", e.writer())
	})
	t.Run("a report-only guard applies it", func(t *testing.T) {
		t.Parallel()
		e := protected(t, "report-only")
		require.NoError(t, forgotten(e))
		require.Equal(t, "late A", e.writer())
	})
	t.Run("one that is not protected takes it", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		require.NoError(t, forgotten(e))
		require.Equal(t, "late A", e.writer(), "the twin must let the stale write in")
	})
}

func TestEveryDoorToAProtectedTable(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run("in mode "+mode.String(), func(t *testing.T) {
			t.Parallel()
			e := protected(t, "enforce")
			pool, w := wired(t, 1, inMode(mode))
			for name, door := range doors(e, e.with(func(g *sqlguard.Guard) { g.DB = pool })) {
				t.Run(name, func(t *testing.T) {
					e.exec("DELETE FROM marks")
					require.NoError(t, door(e.ctx(33), "33"))
					require.NoError(t, door(e.ctx(33), "33 again"))
					require.Equal(t, "33 again", e.writer())
					require.NoError(t, door(e.ctx(34), "34"))
					require.ErrorIs(t, door(e.ctx(33), "late"), guard.ErrStale)
					require.ErrorIs(t, door(e.as(34, "impostor"), "impostor"), guard.ErrCollision)
					_, err := pool.Exec(e.ctx(34), e.sql("UPDATE accounts SET writer = 'forgotten' WHERE id = 42"))
					unguarded(t, err)
					require.Equal(t, "34", e.writer())
				})
			}
			require.Equal(t, int64(1), w.dials.Load(), "no refusal costs a connection")
		})
	}
}

func TestProtectedTableAndOtherResources(t *testing.T) {
	t.Parallel()
	e := protected(t, "enforce")
	pool, w := wired(t, 1)
	g := e.with(func(g *sqlguard.Guard) { g.DB = pool })
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

// hazard G24
func TestAdmissionThatEndsTooSoonForAProtectedTable(t *testing.T) {
	t.Parallel()
	joined := func(e *env) error {
		e.admitted(33)
		tx, ctx := e.open(pgx.TxOptions{}), e.ctx(33)
		sp, err := tx.Begin(ctx)
		require.NoError(t, err)
		require.NoError(t, e.guard.Join(ctx, sp, resource))
		require.NoError(t, sp.Rollback(ctx))
		require.NoError(t, e.guard.Update(e.ctx(34), resource, e.write(ctx, "B")), "no writer is in any more")
		if err := e.write(ctx, "A")(tx); err != nil {
			return err
		}
		return tx.Commit(ctx)
	}
	t.Run("a protected table refuses the write after a savepoint that was rolled back", func(t *testing.T) {
		t.Parallel()
		e := protected(t, "enforce")
		unguarded(t, joined(e))
		require.Equal(t, "B", e.writer())
	})
	t.Run("another does not", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		require.NoError(t, joined(e))
		require.Equal(t, "A", e.writer(), "the twin must let the stale write in")
	})
}

// A guard in report-only mode admits no stale token, so an enforcing table refuses its
// writes. Therefore tables are protected after the guards enforce.
func TestObservingGuardAndProtectedTable(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{"enforce": "34", "report-only": "late"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			e := protected(t, mode)
			g := e.with(func(g *sqlguard.Guard) {
				g.DangerouslyReportOnly, g.Hooks.Reported = true, func(context.Context, error) {}
			})
			for name, door := range doors(e, g) {
				e.exec("DELETE FROM marks")
				require.NoError(t, door(e.ctx(34), "34"), name)
				err := door(e.ctx(33), "late")
				if mode == "enforce" {
					unguarded(t, err)
				} else {
					require.NoError(t, err, name)
				}
				require.Equal(t, want, e.writer(), name)
			}
		})
	}
}
