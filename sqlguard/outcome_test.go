package sqlguard_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/pgtest"
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
		inEnv(t, "SQLSTATE "+c.code+" in fn, in a statement and at the commit", func(t *testing.T, e *env) {
			raise := `DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '` + c.code + `'; END $$`
			ctx := e.ctx(33)
			check := func(err error) {
				t.Helper()
				require.Equal(t, c.code, outcomeCode(err))
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
	inEnv(t, "a session that was ended is evicted, wherever that is noticed", func(t *testing.T, e *env) { endedSessions(t, e, e.guard) })
	inEnv(t, "a guarded write inside a guarded write has one outcome", func(t *testing.T, e *env) {
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

// endedSessions ends the sessions of writes at different moments.
func endedSessions(t *testing.T, e *env, g *sqlguard.Guard) {
	t.Helper()
	ctx := e.ctx(33)
	end := func(tx pgx.Tx) error { // behind a pooler, pgx has the pooler's process id
		var pid uint32
		err := tx.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid)
		e.endSession(pid)
		return err
	}
	for name, write := range map[string]func() error{
		"before a statement": func() error {
			return g.Update(ctx, resource, func(tx pgx.Tx) error { return errors.Join(end(tx), e.write(ctx, "x")(tx)) })
		},
		"before the commit, long after it began": func() error {
			return g.Update(ctx, resource, func(tx pgx.Tx) error {
				defer time.Sleep(100 * time.Millisecond) // then the commit pings first
				return errors.Join(e.write(ctx, "x")(tx), end(tx))
			})
		},
		"in a statement": func() error {
			_, err := g.On(resource).Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(60)")
			return err
		},
		"in the commit, which is settled": func() error {
			e.exec("CREATE FUNCTION " + e.schema + ".ends() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()), pg_sleep(60); END'")
			e.exec("CREATE CONSTRAINT TRIGGER ends AFTER UPDATE ON accounts DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION " + e.schema + ".ends()")
			defer e.exec("DROP TRIGGER ends ON accounts")
			return g.Update(ctx, resource, e.write(ctx, "x"))
		},
	} {
		err := write()
		require.Equal(t, []error{guard.ErrEvicted}, outcomes(err), "%s: %v", name, err)
	}
	require.Empty(t, e.writer(), "applied nothing")
	require.NoError(t, g.Update(ctx, resource, e.write(ctx, "33")), "there is another session")
	require.Equal(t, "33", e.writer())
}

// An fn that ends the transaction has left in the database what it wrote, if it committed. What
// it writes in a transaction that it has begun by that is not guarded, and is not committed.
//
// hazard G42
func TestAnFnThatEndsTheTransaction(t *testing.T) {
	t.Parallel()
	mine := errors.New("mine")
	send := func(sql string) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, sql); return err }
	}
	for name, c := range map[string]struct {
		end   func(ctx context.Context, tx pgx.Tx) error
		wrote int64
		modes []pgx.QueryExecMode
	}{
		"COMMIT":                       {send("COMMIT"), 1, modes[:1]},
		"COMMIT AND CHAIN":             {send("COMMIT AND CHAIN"), 1, modes},
		"ROLLBACK AND CHAIN":           {send("ROLLBACK AND CHAIN"), 0, modes},
		"ROLLBACK AND CHAIN, one more": {send("ROLLBACK AND CHAIN; UPDATE accounts SET balance = balance + 1"), 0, modes},
		"tx.Commit":                    {func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) }, 1, modes[:1]},
		"tx.Rollback":                  {func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) }, 0, modes[:1]},
	} {
		for _, mode := range c.modes {
			for _, fails := range []error{nil, mine} {
				e := newEnv(t)
				ctx, pool := e.ctx(33), pgtest.Connect(t, func(c *pgxpool.Config) {
					c.ConnConfig.DefaultQueryExecMode, c.ConnConfig.RuntimeParams["search_path"] = mode, e.schema
					pgtest.One(c)
				})
				fn := func(tx pgx.Tx) error { return errors.Join(e.addOne(ctx)(tx), c.end(ctx, tx), fails) }
				check := func(err error) {
					t.Helper()
					require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "%s in mode %s: %v", name, mode, err)
					require.Equal(t, fails != nil, errors.Is(err, mine), name)
				}
				g := e.by(pool)
				check(g.Update(ctx, resource, fn))
				_, err := g.Once(ctx, resource, payment, func(tx pgx.Tx) ([]byte, error) { return nil, fn(tx) })
				check(err)
				require.Equal(t, 100+2*c.wrote, e.balance(), name)
				require.NoError(t, g.Update(ctx, resource, e.addOne(ctx)), "%s in mode %s: the connection is fit for use", name, mode)

				outer, err := pool.Begin(ctx)
				require.NoError(t, err)
				defer func() { _ = outer.Rollback(ctx) }()
				check(e.by(outer).Update(ctx, resource, fn))
			}
		}
	}

	e := newEnv(t)
	require.Equal(t, mine, e.guard.Update(e.ctx(33), resource, func(pgx.Tx) error { return mine }), "unchanged if it is open")
	require.NoError(t, pgx.BeginFunc(e.bounded(), e.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(e.bounded(), e.sql("ROLLBACK AND CHAIN; UPDATE accounts SET balance = balance + 1 WHERE id = 42"))
		return err
	}))
	require.Equal(t, int64(101), e.balance(), "the twin commits it")
}

// What is left of a transaction that has ended is of no use: its connection may be another's.
func TestATransactionIsOverAfterItsUpdate(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := e.ctx(33)
	for _, fails := range []error{nil, errors.New("mine")} {
		var tx, savepoint pgx.Tx
		require.ErrorIs(t, e.guard.Update(ctx, resource, func(open pgx.Tx) (err error) {
			tx = open
			savepoint, err = tx.Begin(ctx)
			return errors.Join(err, fails)
		}), fails)
		require.ErrorIs(t, e.addOne(ctx)(tx), pgx.ErrTxClosed)
		require.ErrorIs(t, e.addOne(ctx)(savepoint), pgx.ErrTxClosed)
	}
	require.Equal(t, int64(100), e.balance())
}
