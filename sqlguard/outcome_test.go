package sqlguard_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// outcomes returns the sentinels that errors.Is finds in err: there is at most one.
func outcomes(err error) (found []error) {
	for _, outcome := range []error{guard.ErrStale, guard.ErrRetryable, guard.ErrUnknown, guard.ErrEvicted, guard.ErrClaimFirst, guard.ErrRowNotFound, guard.ErrUnfenced} {
		if errors.Is(err, outcome) {
			found = append(found, outcome)
		}
	}
	return found
}

func TestOutcomesOfTheServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code string
		is   []error
	}{
		{"40001", []error{guard.ErrRetryable}},
		{"40P01", []error{guard.ErrRetryable}},
		{"23505", nil},
		{"57014", nil},
		{"ZF003", nil},
	} {
		t.Run("SQLSTATE "+c.code+" in fn, in a statement and at the commit", func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			raise := `DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '` + c.code + `'; END $$`
			ctx := e.ctx(33)
			check := func(err error) {
				t.Helper()
				var pg *pgconn.PgError
				require.ErrorAs(t, err, &pg)
				require.Equal(t, c.code, pg.Code)
				require.Equal(t, c.is, outcomes(err))
			}
			check(e.guard.Update(ctx, resource, func(tx pgx.Tx) error { _, err := tx.Exec(ctx, raise); return err }))
			_, err := e.guard.On(resource).Exec(ctx, raise)
			check(err)
			e.exec(`CREATE FUNCTION ` + e.schema + `.late() RETURNS trigger LANGUAGE plpgsql AS $$
				BEGIN RAISE EXCEPTION USING ERRCODE = '` + c.code + `'; END $$`)
			e.exec("CREATE CONSTRAINT TRIGGER late AFTER UPDATE ON accounts DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION " + e.schema + ".late()")
			check(e.guard.Update(ctx, resource, e.write(ctx, "x")))
			_, err = e.guard.On(resource).Exec(ctx, e.sql("UPDATE accounts SET writer = 'x'"))
			check(err)
		})
	}
	t.Run("a session that was ended is evicted, wherever that is noticed", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		ctx := e.ctx(33)
		end := func(tx pgx.Tx) error {
			e.endSession(tx.Conn().PgConn().PID())
			return nil
		}
		// An Update that took 100 ms pings before it commits.
		err := e.guard.Update(ctx, resource, func(tx pgx.Tx) error { defer time.Sleep(100 * time.Millisecond); return end(tx) })
		require.Equal(t, []error{guard.ErrEvicted}, outcomes(err), "before the commit: %v", err)
		err = e.guard.Update(ctx, resource, func(tx pgx.Tx) error { return errors.Join(end(tx), e.write(ctx, "x")(tx)) })
		require.Equal(t, []error{guard.ErrEvicted}, outcomes(err), "at a statement: %v", err)
		_, err = e.guard.On(resource).Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(60)")
		require.Equal(t, []error{guard.ErrEvicted}, outcomes(err), "in a statement: %v", err)
	})
	t.Run("a guarded write inside a guarded write has one outcome", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		e.admitted(34)
		ctx := token.NewContext(e.ctx(33), token.Token{Resource: "account/43", Number: 1, Holder: "h"})
		var refused int
		g := e.with(func(g *sqlguard.Guard) { g.Hooks.Refused = func(context.Context, error) { refused++ } })
		err := g.Update(ctx, "account/43", func(tx pgx.Tx) error {
			inner := *g
			inner.DB = tx
			return inner.Update(ctx, resource, e.write(ctx, "x"))
		})
		require.Equal(t, []error{guard.ErrStale}, outcomes(err))
		require.Equal(t, 1, refused, "reported once")
	})
}

// An fn that ends the transaction and then fails has left what it wrote in the database, if
// it committed.
func TestAnErrorOfAnFnThatEndsTheTransactionIsUnknown(t *testing.T) {
	t.Parallel()
	mine := errors.New("mine")
	for name, end := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"COMMIT":      func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, "COMMIT"); return err },
		"tx.Commit":   func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
		"tx.Rollback": func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
	} {
		e := newEnv(t)
		ctx := e.ctx(33)
		fn := func(tx pgx.Tx) error { return errors.Join(e.addOne(ctx)(tx), end(ctx, tx), mine) }
		once := func(tx pgx.Tx) ([]byte, error) { return nil, fn(tx) }
		check := func(err error) {
			t.Helper()
			require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), name)
			require.ErrorIs(t, err, mine, name)
		}
		check(e.guard.Update(ctx, resource, fn))
		_, err := e.guard.Once(ctx, resource, payment, once)
		check(err)
		if name != "tx.Rollback" {
			require.Equal(t, int64(102), e.balance(), "%s: the twin, which says that nothing was applied, is wrong", name)
		}

		outer, err := e.pool.Begin(ctx)
		require.NoError(t, err)
		check(e.by(outer).Update(ctx, resource, fn))
		_ = outer.Rollback(ctx)
	}

	e := newEnv(t)
	require.Equal(t, mine, e.guard.Update(e.ctx(33), resource, func(pgx.Tx) error { return mine }), "unchanged if it is open")
}
