package sqlguard_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

func TestUpdate(t *testing.T) {
	t.Parallel()
	inEnv(t, "the token is admitted, the write is committed, the mark is raised", func(t *testing.T, e *env) {
		ctx := e.ctx(33)
		require.NoError(t, e.guard.Update(ctx, resource, e.write(ctx, "first")))
		require.NoError(t, e.guard.Update(ctx, resource, e.write(ctx, "second")))
		require.Equal(t, "second", e.writer())
		require.Equal(t, "33 h33", e.mark(resource))
	})
	inEnv(t, "a stale token is refused before fn runs", func(t *testing.T, e *env) {
		e.admitted(34)
		err := e.guard.Update(e.ctx(33), resource, func(pgx.Tx) error { panic("fn ran") })
		var stale *guard.StaleError
		require.ErrorAs(t, err, &stale)
		require.Equal(t, guard.Mark{Number: 34, Holder: "h34"}, stale.Mark)
		require.Equal(t, int64(33), stale.Token.Number)
		require.ErrorIs(t, err, guard.ErrStale)
		require.NotErrorIs(t, err, guard.ErrCollision)
		require.EqualError(t, err, "guard: stale token account/42#33: overtaken by #34 of h34")
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg)
		require.Equal(t, "ZF001", pg.Code)
	})
	inEnv(t, "fn's error is returned as it is and rolls back", func(t *testing.T, e *env) {
		ctx := e.ctx(33)
		own := errors.New("fn's own")
		err := e.guard.Update(ctx, resource, func(tx pgx.Tx) error {
			return errors.Join(e.write(ctx, "x")(tx), own)
		})
		require.ErrorIs(t, err, own)
		require.Empty(t, e.writer())
		require.Equal(t, "33 h33", e.mark(resource), "the claim stands")
	})
	inEnv(t, "a panic in fn rolls back and propagates", func(t *testing.T, e *env) {
		ctx := e.ctx(33)
		require.PanicsWithValue(t, "boo", func() {
			_ = e.guard.Update(ctx, resource, func(tx pgx.Tx) error { _ = e.write(ctx, "x")(tx); panic("boo") })
		})
		require.Empty(t, e.writer())
		require.Zero(t, e.pool.Stat().AcquiredConns())
	})
	inEnv(t, "Goexit in fn rolls back", func(t *testing.T, e *env) {
		ctx := e.ctx(33)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = e.guard.Update(ctx, resource, func(tx pgx.Tx) error { _ = e.write(ctx, "x")(tx); runtime.Goexit(); return nil })
		}()
		<-done
		require.Empty(t, e.writer())
		require.Zero(t, e.pool.Stat().AcquiredConns())
	})
	inEnv(t, "no token, no write", func(t *testing.T, e *env) {
		var refused error
		g := e.with(func(g *sqlguard.Guard) {
			g.Hooks.Refused = func(_ context.Context, err error) { refused = err }
		})
		err := g.Update(e.bounded(), resource, func(pgx.Tx) error { panic("fn ran") })
		require.ErrorIs(t, err, token.ErrMissing)
		require.ErrorIs(t, refused, token.ErrMissing)
		err = g.Update(e.ctx(33), "account/43", func(pgx.Tx) error { panic("fn ran") })
		require.ErrorIs(t, err, token.ErrMissing)
	})
	inEnv(t, "fn that swallows an error of the server does not commit", func(t *testing.T, e *env) {
		ctx := e.ctx(33)
		err := e.guard.Update(ctx, resource, func(tx pgx.Tx) error {
			_ = e.write(ctx, "x")(tx)
			_, _ = tx.Exec(ctx, "SELECT 1/0")
			return nil
		})
		require.ErrorIs(t, err, pgx.ErrTxCommitRollback)
		require.Empty(t, outcomes(err), "an ordinary failure")
		require.Empty(t, e.writer())
	})
	inEnv(t, "a caller whose context ends before the commit gets a certain outcome", func(t *testing.T, e *env) {
		ctx, cancel := context.WithCancel(e.ctx(33))
		err := e.guard.Update(ctx, resource, func(tx pgx.Tx) error { defer cancel(); return e.write(ctx, "x")(tx) })
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, outcomes(err))
		require.Empty(t, e.writer())
	})
	t.Run("a guard that cannot raise a mark returns an error", func(t *testing.T) {
		t.Parallel()
		g := &sqlguard.Guard{}
		require.ErrorContains(t, g.Update(t.Context(), resource, nil), "sqlguard: Guard has no DB")
		g.Tx.AccessMode = pgx.ReadOnly
		require.ErrorContains(t, g.Update(t.Context(), resource, nil), "read only")
		_, err := g.On(resource).Exec(t.Context(), "SELECT 1")
		require.ErrorContains(t, err, "read only")
		require.ErrorContains(t, g.UpdateAll(t.Context(), nil, nil), "no resource")
	})
	inEnv(t, "a schema that is not migrated is named", func(t *testing.T, e *env) {
		g := e.with(func(g *sqlguard.Guard) { g.Schema = "nowhere" })
		err := g.Update(e.ctx(33), resource, func(pgx.Tx) error { panic("fn ran") })
		require.ErrorContains(t, err, `schema "nowhere" lacks tables or functions: run migrations.Up`)
	})
}

const writers = 16

// all runs f for each writer at once and returns their errors.
func all(f func(i int) error) []error {
	errs := make([]error, writers)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() { errs[i] = f(i) })
	}
	group.Wait()
	return errs
}

// barrier blocks each writer until all writers have arrived.
type barrier struct {
	come atomic.Int64
	all  chan struct{}
}

func newBarrier() *barrier { return &barrier{all: make(chan struct{})} }

func (b *barrier) pass(ctx context.Context) error {
	if b.come.Add(1) == writers {
		close(b.all)
	}
	select {
	case <-b.all:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("only %d came: %w", b.come.Load(), ctx.Err())
	}
}

// hazard G12
func TestOneTokenWritesInParallel(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		inEnv(t, "sixteen transactions are inside at once under "+string(level), func(t *testing.T, e *env) {
			e.admitted(33)
			ctx, b := e.ctx(33), newBarrier()
			for _, err := range all(func(int) error {
				return e.at(level).Update(ctx, resource, func(pgx.Tx) error { return b.pass(ctx) })
			}) {
				require.NoError(t, err)
			}
		})
	}
	// hazard G17
	inEnv(t, "if admission always writes the mark, one is inside and the others wait", func(t *testing.T, e *env) {
		e.admitted(33)
		var inside, waited atomic.Int64
		ctx := e.bounded()
		for _, err := range all(func(int) error {
			return pgx.BeginFunc(e.bounded(), e.pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(e.bounded(), e.sql(`SET LOCAL lock_timeout = '300ms';
					INSERT INTO marks AS m VALUES ('account/42', 33, 'h33')
					ON CONFLICT (resource) DO UPDATE SET number = excluded.number WHERE m.number < excluded.number`))
				if err != nil {
					waited.Add(1)
					return nil
				}
				inside.Add(1)
				for waited.Load() < writers-1 && ctx.Err() == nil { // it stays until all others have given up
					time.Sleep(time.Millisecond)
				}
				return nil
			})
		}) {
			if err != nil {
				require.ErrorIs(t, err, pgx.ErrTxCommitRollback)
			}
		}
		require.Equal(t, int64(1), inside.Load(), "the twin must serialise")
	})
}

// hazard G9
func TestDeletedRow(t *testing.T) {
	t.Parallel()
	inEnv(t, "a mark in the row is forgotten with the row", func(t *testing.T, e *env) {
		e.exec("ALTER TABLE accounts ADD token bigint NOT NULL DEFAULT 0")
		upsert := `INSERT INTO accounts AS a (id, writer, token) VALUES (42, $1, $2)
			ON CONFLICT (id) DO UPDATE SET writer = $1, token = $2 WHERE a.token <= $2`
		e.exec(upsert, "B", 34)
		e.exec(upsert, "A", 33)
		require.Equal(t, "B", e.writer(), "as long as the row is there it fences")
		e.exec("DELETE FROM accounts WHERE id = 42 AND token <= 34")
		e.exec(upsert, "A", 33)
		require.Equal(t, "A", e.writer(), "the twin must let the stale insert in")
	})
	inEnv(t, "a mark of its own stays", func(t *testing.T, e *env) {
		_, err := e.guard.On(resource).Exec(e.ctx(34), e.sql("DELETE FROM accounts WHERE id = 42"))
		require.NoError(t, err)
		_, err = e.guard.On(resource).Exec(e.ctx(33), e.sql("INSERT INTO accounts (id, writer) VALUES (42, 'A')"))
		require.ErrorIs(t, err, guard.ErrStale)
		require.Zero(t, query[int](e, "SELECT count(*) FROM accounts WHERE id = 42"))
	})
}
