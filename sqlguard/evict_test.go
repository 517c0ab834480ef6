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
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

const short = 200 * time.Millisecond

// stuck is a source of rows that blocks after the first one until the test ends: a holder
// that is paused inside COPY FROM STDIN.
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

// pauses are the ways in which a holder can be paused inside an admitted transaction.
// Each returns when over is closed.
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

// paused lets write run in a goroutine until its holder is paused in that way. The function
// that it returns wakes the holder, and returns the error of write.
func (e *env) paused(ctx context.Context, how string, write func(fn func(tx pgx.Tx) error) error) (wake func() error) {
	e.t.Helper()
	begun, over := make(chan struct{}), make(chan struct{})
	open := sync.OnceFunc(func() { close(over) })
	e.t.Cleanup(open)
	late := async(func() error {
		return write(func(tx pgx.Tx) error { return pauses(e)[how](ctx, tx, begun, over) })
	})
	<-begun
	return func() error {
		open()
		return await(e.t, late)
	}
}

// hazard G8
func TestPausedHolderIsEvicted(t *testing.T)       { pausedHolders(t) }
func TestStressPausedHolderIsEvicted(t *testing.T) { pausedHolders(t) }

func pausedHolders(t *testing.T) {
	t.Parallel()
	for name := range testenv.Some(t, pauses(nil), "idle") {
		for _, enter := range []string{"Admit", "Mint", "Update", "On.Exec"} {
			inEnv(t, enter+" gets past a holder that is paused "+name, func(t *testing.T, e *env) {
				e.admitted(33)
				older := e.with(func(g *sqlguard.Guard) { g.IdleTimeout = -1 })
				pool, _ := wired(t, 1)
				newer := e.with(func(g *sqlguard.Guard) { g.DB, g.IdleTimeout = pool, short })
				ctx := e.ctx(33)
				wake := e.paused(ctx, name, func(fn func(pgx.Tx) error) error { return older.Update(ctx, resource, fn) })
				require.NoError(t, successor(e, newer)[enter](e.bounded()))
				err := wake()
				require.Error(t, err)
				if name != "with an unread result" { // the server cannot send the writer an error: the connection's buffer is full
					require.Equal(t, []error{guard.ErrEvicted}, outcomes(err), "%v", err)
				}
				require.NotEqual(t, "A", e.writer())
				require.ErrorIs(t, e.guard.Update(ctx, resource, e.write(ctx, "A")), guard.ErrStale)
			})
		}
		// hazard G8
		inEnv(t, "without a bound the successor waits for a holder that is paused "+name, func(t *testing.T, e *env) {
			e.admitted(33)
			unbounded := e.with(func(g *sqlguard.Guard) { g.IdleTimeout = -1 })
			ctx, cancel := context.WithCancel(e.ctx(33))
			defer cancel()
			wake := e.paused(ctx, name, func(fn func(pgx.Tx) error) error { return unbounded.Update(ctx, resource, fn) })
			e.keepsWaiting(func(ctx context.Context) error { return unbounded.Admit(ctx, tokenOf(34)) })
			cancel()
			_ = wake()
		})
	}
	// hazard G8
	inEnv(t, "the server ends an idle holder by itself", func(t *testing.T, e *env) {
		g := e.with(func(g *sqlguard.Guard) { g.IdleTimeout = short })
		ctx := e.ctx(33)
		err := g.Update(ctx, resource, func(tx pgx.Tx) error {
			e.gone(tx.Conn().PgConn().PID())
			return e.write(ctx, "A")(tx)
		})
		require.Equal(t, []error{guard.ErrEvicted}, outcomes(err))
		require.Empty(t, e.writer())
	})
}

// A holder that raises the mark in its own transaction blocks others, which cannot read
// the uncommitted number.
//
// hazard G8
func TestPausedRaiserIsEvicted(t *testing.T) {
	t.Parallel()
	newest := token.Token{Resource: resource, Number: token.MaxNumber, Holder: "newest"}
	for name := range pauses(nil) {
		for _, raise := range []string{"Join", "Mint"} {
			run := func(t *testing.T, mutate bool) {
				t.Parallel()
				e := newEnv(t)
				if mutate {
					e.mutate("lock_number", "pg_catalog.pg_try_advisory_xact_lock_shared(", "0 OPERATOR(pg_catalog.=) abs(")
				}
				unbounded := e.with(func(g *sqlguard.Guard) { g.IdleTimeout = -1 })
				raises := map[string]func(ctx context.Context, tx pgx.Tx) error{
					"Join": func(ctx context.Context, tx pgx.Tx) error { return unbounded.Join(ctx, tx, resource) },
					"Mint": func(ctx context.Context, tx pgx.Tx) error {
						_, err := unbounded.MintTx(ctx, tx, resource, "A")
						return err
					},
				}
				ctx, cancel := context.WithCancel(e.ctx(33))
				defer cancel()
				wake := e.paused(ctx, name, func(fn func(pgx.Tx) error) error {
					return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
						if err := raises[raise](ctx, tx); err != nil {
							return err
						}
						return fn(tx)
					})
				})
				admit := func(ctx context.Context) error {
					return e.with(func(g *sqlguard.Guard) { g.IdleTimeout = short }).Admit(ctx, newest)
				}
				if mutate {
					e.keepsWaiting(admit)
					cancel()
				} else {
					require.NoError(t, admit(e.bounded()))
				}
				require.Error(t, wake())
				require.NotEqual(t, "A", e.writer())
			}
			t.Run("by a newer one, after its "+raise+", when it is "+name, func(t *testing.T) { run(t, false) })
			if raise == "Join" {
				t.Run("not if it has published no number, when it is "+name, func(t *testing.T) { run(t, true) })
			}
		}
	}
	inEnv(t, "not by an older one", func(t *testing.T, e *env) {
		e.admitted(33)
		tx := e.open(pgx.TxOptions{})
		require.NoError(t, e.guard.Join(e.ctx(35), tx, resource))
		e.keepsWaiting(func(ctx context.Context) error {
			return e.with(func(g *sqlguard.Guard) { g.IdleTimeout = short }).Admit(ctx, tokenOf(34))
		})
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
	rows, err := e.by(pool).On(resource).Query(e.ctx(33), "SELECT repeat('x', 1000) FROM generate_series(1, 1000000)")
	require.NoError(t, err)
	defer rows.Close()
	require.True(t, rows.Next())
	e.keepsWaiting(func(ctx context.Context) error {
		return e.with(func(g *sqlguard.Guard) { g.IdleTimeout = -1 }).Admit(ctx, tokenOf(34))
	})
	require.NoError(t, e.with(func(g *sqlguard.Guard) { g.IdleTimeout = short }).Admit(e.bounded(), tokenOf(34)))
	for rows.Next() {
	}
	require.Error(t, rows.Err())
}

// keepsWaiting requires that a call keeps waiting, and cancels it. It is the twin of a call
// that does not wait.
func (e *env) keepsWaiting(call func(ctx context.Context) error) {
	e.t.Helper()
	ctx, giveUp := context.WithCancel(e.bounded())
	defer giveUp()
	done := async(func() error { return call(ctx) })
	e.stillWaits(done)
	giveUp()
	require.ErrorIs(e.t, await(e.t, done), context.Canceled)
}

// untilInTime repeats a call if a slow machine left it idle for longer than a bound of
// some seconds.
func untilInTime(call func() error) (err error) {
	for err = guard.ErrEvicted; errors.Is(err, guard.ErrEvicted); {
		err = call()
	}
	return err
}

// successor returns the calls that can wait for older writers.
func successor(e *env, g *sqlguard.Guard) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"Admit": func(ctx context.Context) error {
			return g.Admit(ctx, token.Token{Resource: resource, Number: 34, Holder: "h34"})
		},
		"Mint": func(ctx context.Context) error { _, err := g.Mint(ctx, resource, "minted"); return err },
		"Update": func(context.Context) error {
			return untilInTime(func() error { return g.Update(e.ctx(34), resource, func(pgx.Tx) error { return nil }) })
		},
		"On.Exec": func(context.Context) error { _, err := g.On(resource).Exec(e.ctx(34), "SELECT 1"); return err },
	}
}

func TestIdleBound(t *testing.T) {
	t.Parallel()
	bound := func(t *testing.T, g *sqlguard.Guard, e *env, before string) (inside, after string, err error) {
		conn, err := e.pool.Acquire(t.Context())
		require.NoError(t, err)
		defer conn.Release()
		_, err = conn.Exec(t.Context(), "SET idle_in_transaction_session_timeout = "+before)
		require.NoError(t, err)
		defer conn.Exec(t.Context(), "RESET idle_in_transaction_session_timeout")
		own := *g
		own.DB = conn
		show := "SHOW idle_in_transaction_session_timeout"
		err = own.Update(e.ctx(33), resource, func(tx pgx.Tx) error {
			return tx.QueryRow(t.Context(), show).Scan(&inside)
		})
		if err == nil {
			err = conn.QueryRow(t.Context(), show).Scan(&after)
		}
		return inside, after, err
	}
	for _, c := range []struct {
		idle                  time.Duration
		before, inside, after string
	}{
		{0, "0", "5s", "0"},
		{0, "'1min'", "5s", "1min"},
		{0, "'3s'", "3s", "3s"},
		{time.Minute, "'90min'", "1min", "90min"},
		{20*time.Second + time.Microsecond, "0", "20001ms", "0"},
		{-1, "0", "0", "0"},
		{-1, "'2h'", "2h", "2h"},
		{1 << 62, "'2h'", "2h", "2h"},
	} {
		inEnv(t, "Idle "+c.idle.String()+" in a session that has "+c.before, func(t *testing.T, e *env) {
			var inside, after string
			require.NoError(t, untilInTime(func() (err error) {
				inside, after, err = bound(t, e.with(func(g *sqlguard.Guard) { g.IdleTimeout = c.idle }), e, c.before)
				return err
			}))
			require.Equal(t, c.inside, inside)
			require.Equal(t, c.after, after, "it ends with the transaction")
		})
	}
}

// A first transaction under a token that was not claimed lasts longer than IdleTimeout.
// Other sessions must not take its writer for an older one.
func TestFirstTransactionOutlastsIdle(t *testing.T) {
	t.Parallel()
	// long returns after it has begun a transaction that is busy for three times the
	// IdleTimeout of the others. Its own IdleTimeout is longer, since a slow machine may
	// be idle.
	long := func(e *env) <-chan error {
		begun, ctx := make(chan struct{}), e.ctx(34)
		done := async(func() error {
			return e.guard.Update(ctx, resource, func(tx pgx.Tx) error {
				close(begun)
				_, err := tx.Exec(ctx, "SELECT pg_sleep($1)", (3 * short).Seconds())
				return err
			})
		})
		<-begun
		return done
	}
	inEnv(t, "a peer of the same token does not end it", func(t *testing.T, e *env) {
		g := e.with(func(g *sqlguard.Guard) { g.IdleTimeout = short })
		first := long(e)
		_, err := g.On(resource).Exec(e.ctx(34), e.sql("UPDATE accounts SET writer = 'peer' WHERE id = 42"))
		require.NoError(t, err)
		require.NoError(t, await(t, first))
	})
	inEnv(t, "an older writer does not end it", func(t *testing.T, e *env) {
		g := e.with(func(g *sqlguard.Guard) { g.IdleTimeout = short })
		first := long(e)
		require.ErrorIs(t, g.Update(e.ctx(33), resource, e.write(e.bounded(), "zombie")), guard.ErrStale)
		require.NoError(t, await(t, first))
	})
	inEnv(t, "nor if it raised inside its own transaction, for which the older one waits", func(t *testing.T, e *env) {
		e.admitted(32)
		tx := e.open(pgx.TxOptions{})
		require.NoError(t, e.guard.Join(e.ctx(34), tx, resource))
		g := e.with(func(g *sqlguard.Guard) { g.IdleTimeout = short })
		late := async(func() error { return g.Update(e.ctx(33), resource, e.write(e.bounded(), "zombie")) })
		e.stillWaits(late)
		require.NoError(t, tx.Commit(e.bounded()))
		require.ErrorIs(t, await(t, late), guard.ErrStale)
	})
}
