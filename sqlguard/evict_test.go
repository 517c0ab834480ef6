package sqlguard_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

const short = 200 * time.Millisecond

// stuck is a source of rows that stops after the first, for as long as the
// test lasts: a holder that is paused inside COPY FROM STDIN.
type stuck struct {
	begun, over chan struct{}
	given       bool
}

func (s *stuck) Next() bool {
	if !s.given {
		s.given = true
		return true
	}
	close(s.begun)
	<-s.over
	return false
}
func (s *stuck) Values() ([]any, error) { return []any{int64(7)}, nil }
func (s *stuck) Err() error             { return errors.New("woken too late") }

// pauses are the ways in which a holder can be stopped inside an admitted
// transaction. Each returns when over is closed.
func pauses(e *env) map[string]func(ctx context.Context, tx pgx.Tx, begun, over chan struct{}) error {
	return map[string]func(ctx context.Context, tx pgx.Tx, begun, over chan struct{}) error{
		"idle": func(ctx context.Context, tx pgx.Tx, begun, over chan struct{}) error {
			close(begun)
			<-over
			return e.write(ctx, "A")(tx)
		},
		"in COPY FROM STDIN": func(ctx context.Context, tx pgx.Tx, begun, over chan struct{}) error {
			_, err := tx.CopyFrom(ctx, pgx.Identifier{e.schema, "accounts"}, []string{"id"}, &stuck{begun: begun, over: over})
			return err
		},
		"with an unread result": func(ctx context.Context, tx pgx.Tx, begun, over chan struct{}) error {
			rows, err := tx.Query(ctx, "SELECT repeat('x', 1000) FROM generate_series(1, 1000000)")
			if err != nil {
				return err
			}
			rows.Next()
			close(begun)
			<-over
			for rows.Next() {
			}
			return rows.Err()
		},
	}
}

// hazard G8
func TestPausedHolderIsEvicted(t *testing.T) {
	t.Parallel()
	for name := range pauses(nil) {
		for _, enter := range []string{"Admit", "Mint", "Update", "On.Exec"} {
			t.Run(enter+" gets past a holder that is paused "+name, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				e.admitted(33)
				older := e.with(func(g *sqlguard.Guard) { g.Idle = -1 })
				pool, _ := wired(t, 1)
				newer := e.with(func(g *sqlguard.Guard) { g.DB, g.Idle = pool, short })
				begun, over := make(chan struct{}), make(chan struct{})
				wake := sync.OnceFunc(func() { close(over) })
				defer wake()
				ctx := e.ctx(33)
				late := async(func() error {
					return older.Update(ctx, resource, func(tx pgx.Tx) error { return pauses(e)[name](ctx, tx, begun, over) })
				})
				<-begun
				require.NoError(t, successor(e, newer)[enter](e.bounded()))
				wake()
				err := await(t, late)
				require.Error(t, err)
				if name != "with an unread result" { // nobody can be told then: the line is full
					require.Equal(t, []error{guard.ErrEvicted}, outcomes(err), "%v", err)
				}
				require.NotEqual(t, "A", e.writer())
				require.ErrorIs(t, e.guard.Update(ctx, resource, e.write(ctx, "A")), guard.ErrStale)
			})
		}
		// hazard G8
		t.Run("without a bound the successor waits for a holder that is paused "+name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.admitted(33)
			unbounded := e.with(func(g *sqlguard.Guard) { g.Idle = -1 })
			begun, over := make(chan struct{}), make(chan struct{})
			ctx, cancel := context.WithCancel(e.ctx(33))
			defer cancel()
			wake := sync.OnceFunc(func() { close(over) })
			defer wake()
			late := async(func() error {
				return unbounded.Update(ctx, resource, func(tx pgx.Tx) error { return pauses(e)[name](ctx, tx, begun, over) })
			})
			<-begun
			waiting, giveUp := context.WithTimeout(e.bounded(), 5*short)
			defer giveUp()
			err := unbounded.Admit(waiting, token.Token{Resource: resource, Number: 34, Holder: "h34"})
			require.ErrorIs(t, err, context.DeadlineExceeded, "the twin must wait")
			cancel()
			wake()
			_ = await(t, late)
		})
	}
	// hazard G8
	t.Run("the server ends an idle holder by itself", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		g := e.with(func(g *sqlguard.Guard) { g.Idle = short })
		ctx := e.ctx(33)
		err := g.Update(ctx, resource, func(tx pgx.Tx) error {
			pid := tx.Conn().PgConn().PID()
			e.await("the end of the session", func() bool {
				return query[int](e, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid) == 0
			})
			return e.write(ctx, "A")(tx)
		})
		require.Equal(t, []error{guard.ErrEvicted}, outcomes(err))
		require.Empty(t, e.writer())
	})
}

// A holder that raises the mark in a transaction of its own keeps others waiting
// who cannot see to which number.
//
// hazard G8
func TestPausedRaiserIsEvicted(t *testing.T) {
	t.Parallel()
	newest := token.Token{Resource: resource, Number: token.MaxNumber, Holder: "newest"}
	for name := range pauses(nil) {
		for _, raise := range []string{"Join", "Mint"} {
			run := func(t *testing.T, mutate bool) error {
				t.Parallel()
				e := newEnv(t)
				if mutate {
					e.mutate("lock_number", "pg_catalog.pg_try_advisory_xact_lock_shared(", "0 OPERATOR(pg_catalog.=) abs(")
				}
				unbounded := e.with(func(g *sqlguard.Guard) { g.Idle = -1 })
				raises := map[string]func(ctx context.Context, tx pgx.Tx) error{
					"Join": func(ctx context.Context, tx pgx.Tx) error { return unbounded.Join(ctx, tx, resource) },
					"Mint": func(ctx context.Context, tx pgx.Tx) error {
						_, err := unbounded.Mint(ctx, tx, resource, "A")
						return err
					},
				}
				begun, over := make(chan struct{}), make(chan struct{})
				wake := sync.OnceFunc(func() { close(over) })
				defer wake()
				ctx, cancel := context.WithCancel(e.ctx(33))
				defer cancel()
				late := async(func() error {
					return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
						if err := raises[raise](ctx, tx); err != nil {
							return err
						}
						return pauses(e)[name](ctx, tx, begun, over)
					})
				})
				<-begun
				waiting, giveUp := context.WithTimeout(e.bounded(), ceiling)
				if mutate {
					waiting, giveUp = context.WithTimeout(e.bounded(), 5*short)
				}
				defer giveUp()
				err := e.with(func(g *sqlguard.Guard) { g.Idle = short }).Admit(waiting, newest)
				if mutate {
					cancel()
				}
				wake()
				require.Error(t, await(t, late))
				require.NotEqual(t, "A", e.writer())
				return err
			}
			t.Run("by a newer one, after its "+raise+", when it is "+name, func(t *testing.T) { require.NoError(t, run(t, false)) })
			if raise == "Join" {
				t.Run("not where it does not say to which number, when it is "+name, func(t *testing.T) {
					require.ErrorIs(t, run(t, true), context.DeadlineExceeded, "the twin must wait")
				})
			}
		}
	}
	t.Run("not by an older one", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		e.admitted(33)
		tx := e.open(pgx.TxOptions{})
		require.NoError(t, e.guard.Join(e.ctx(35), tx, resource))
		waiting, giveUp := context.WithTimeout(e.bounded(), 3*short)
		defer giveUp()
		err := e.with(func(g *sqlguard.Guard) { g.Idle = short }).Admit(waiting, token.Token{Resource: resource, Number: 34, Holder: "h34"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, tx.Commit(t.Context()))
		require.Equal(t, "35 h35", e.mark(resource))
	})
}

// hazard G8
func TestReaderWhoStopsIsEvicted(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.admitted(33)
	pool, _ := wired(t, 1)
	rows, err := e.with(func(g *sqlguard.Guard) { g.DB = pool }).On(resource).Query(e.ctx(33), "SELECT repeat('x', 1000) FROM generate_series(1, 1000000)")
	require.NoError(t, err)
	defer rows.Close()
	require.True(t, rows.Next())
	newest := token.Token{Resource: resource, Number: 34, Holder: "h34"}
	waiting, giveUp := context.WithTimeout(e.bounded(), 5*short)
	defer giveUp()
	require.ErrorIs(t, e.with(func(g *sqlguard.Guard) { g.Idle = -1 }).Admit(waiting, newest), context.DeadlineExceeded, "the twin must wait")
	require.NoError(t, e.with(func(g *sqlguard.Guard) { g.Idle = short }).Admit(e.bounded(), newest))
	for rows.Next() {
	}
	require.Error(t, rows.Err())
}

// successor is what can wait for older writers.
func successor(e *env, g *sqlguard.Guard) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"Admit": func(ctx context.Context) error {
			return g.Admit(ctx, token.Token{Resource: resource, Number: 34, Holder: "h34"})
		},
		"Mint": func(ctx context.Context) error { _, err := g.Mint(ctx, g.DB, resource, "minted"); return err },
		"Update": func(context.Context) error {
			for {
				err := g.Update(e.ctx(34), resource, func(pgx.Tx) error { return nil })
				if !errors.Is(err, guard.ErrEvicted) { // a busy machine may be idle itself for longer than the short bound
					return err
				}
			}
		},
		"On.Exec": func(context.Context) error { _, err := g.On(resource).Exec(e.ctx(34), "SELECT 1"); return err },
	}
}
