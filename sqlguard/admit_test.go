package sqlguard_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

func TestClaimBeforeTheSnapshot(t *testing.T) {
	t.Parallel()
	for _, level := range levels[1:] {
		inEnv(t, "inside a transaction under "+string(level)+" it is the caller's to do", func(t *testing.T, e *env) {
			for _, name := range []string{"Update", "On.Exec", "On.Query", "On.SendBatch"} {
				g := e.with(func(g *sqlguard.Guard) { g.DB = e.open(pgx.TxOptions{IsoLevel: level}) })
				require.Equal(t, []error{guard.ErrClaimFirst}, outcomes(doors(e, g)[name](e.ctx(33), "x")), name)
			}
			err := e.guard.Join(e.ctx(33), e.open(pgx.TxOptions{IsoLevel: level}), resource)
			require.Equal(t, []error{guard.ErrClaimFirst}, outcomes(err))
			e.admitted(33)
			require.NoError(t, e.guard.Join(e.ctx(33), e.open(pgx.TxOptions{IsoLevel: level}), resource))
		})
	}
	t.Run("it works whatever the session's defaults are", func(t *testing.T) {
		t.Parallel()
		for _, setting := range [][2]string{
			{"default_transaction_isolation", "serializable"},
			{"default_transaction_isolation", "repeatable read"},
			{"default_transaction_read_only", "on"},
		} {
			e := newEnv(t)
			pool, _ := wired(t, 1, withSetting(setting[0], setting[1]))
			g := e.by(pool)
			require.NoError(t, g.Admit(e.bounded(), token.Token{Resource: resource, Number: 33, Holder: "h33"}), setting)
			_, err := g.Mint(e.bounded(), "account/43", "h")
			require.NoError(t, err, setting)
			g.Tx.AccessMode = pgx.ReadWrite
			for name, door := range doors(e, g) {
				if name != "Join" { // its transaction is the test's own
					require.NoError(t, door(e.ctx(34), "x"), "%s, %s", setting, name)
				}
			}
		}
	})
	inEnv(t, "several resources are claimed in one round trip", func(t *testing.T, e *env) {
		pool, w := wired(t, 1)
		g := e.with(func(g *sqlguard.Guard) { g.DB, g.Tx.IsoLevel = pool, pgx.Serializable })
		number := int64(0)
		trips := w.during(func() {
			number++
			ctx := token.NewContext(e.ctx(number), token.Token{Resource: "account/43", Number: number, Holder: "h"})
			require.NoError(t, g.UpdateAll(ctx, []string{"account/43", resource, "account/43"}, func(pgx.Tx) error { return nil }))
		})
		require.Equal(t, int64(5), trips, "refused, rolled back, claimed, admitted, committed")
		require.Equal(t, fmt.Sprintf("%d h", number), e.mark("account/43"))
		require.Equal(t, fmt.Sprintf("%d h%d", number, number), e.mark(resource))
	})
	inEnv(t, "a stale token is refused at the claim", func(t *testing.T, e *env) {
		e.mutate("admit_slow", "n < t OR o IS NULL AND (t > 0 AND t < n) IS NOT TRUE THEN", "current_setting('transaction_isolation') <> 'read committed' THEN")
		e.exec("INSERT INTO marks VALUES ('account/42', 34, 'h34')")
		err := e.at(pgx.Serializable).Update(e.ctx(33), resource, func(pgx.Tx) error { panic("fn ran") })
		require.Equal(t, []error{guard.ErrStale}, outcomes(err))
		err = e.at(pgx.Serializable).Update(e.ctx(34), resource, func(pgx.Tx) error { panic("fn ran") })
		require.Equal(t, []error{guard.ErrClaimFirst}, outcomes(err), "once, not for ever")
	})
}

func TestWaitingForOlderWriters(t *testing.T) {
	t.Parallel()
	// busy is an older writer that stays in its transaction until the test lets it go.
	busy := func(e *env) (letGo func() error) {
		e.admitted(33)
		begun, over := make(chan struct{}), make(chan struct{})
		done := async(func() error {
			g := e.with(func(g *sqlguard.Guard) { g.IdleTimeout = -1 })
			return g.Update(e.ctx(33), resource, func(pgx.Tx) error { close(begun); <-over; return nil })
		})
		<-begun
		return func() error { close(over); return await(e.t, done) }
	}
	inEnv(t, "inside a transaction no session is evicted: retryable", func(t *testing.T, e *env) {
		letGo := busy(e)
		g := e.with(func(g *sqlguard.Guard) { g.IdleTimeout = short })
		err := g.Join(e.ctx(34), e.open(pgx.TxOptions{}), resource)
		require.Equal(t, []error{guard.ErrRetryable}, outcomes(err))
		require.NoError(t, letGo())
	})
	inEnv(t, "if eviction is not permitted it continues to wait", func(t *testing.T, e *env) {
		letGo := busy(e)
		e.mutate("evict", "RETURN (SELECT count(*)", "RAISE insufficient_privilege; RETURN (SELECT count(*)")
		g := e.with(func(g *sqlguard.Guard) { g.IdleTimeout = time.Millisecond })
		ctx, cancel := context.WithTimeout(e.bounded(), 2*short)
		defer cancel()
		err := g.Admit(ctx, token.Token{Resource: resource, Number: 34, Holder: "h34"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		claim := async(func() error { return g.Admit(e.bounded(), token.Token{Resource: resource, Number: 34, Holder: "h34"}) })
		require.NoError(t, letGo(), "the older writer was not ended")
		require.NoError(t, await(t, claim))
	})
	inEnv(t, "the session's own lock_timeout ends no session before its time", func(t *testing.T, e *env) {
		letGo := busy(e)
		pool, _ := wired(t, 1, withSetting("lock_timeout", "10ms"))
		g := e.with(func(g *sqlguard.Guard) { g.DB = pool; g.IdleTimeout = ceiling })
		claim := async(func() error { return g.Update(e.ctx(34), resource, e.write(e.bounded(), "B")) })
		e.stillWaits(claim)
		require.NoError(t, letGo(), "the older writer was not ended")
		require.NoError(t, await(t, claim))
	})
	for _, level := range levels {
		inEnv(t, "report-only under "+string(level)+", it goes on without, and says so", func(t *testing.T, e *env) {
			letGo := busy(e)
			var seen []error
			g := e.with(func(g *sqlguard.Guard) {
				g.IdleTimeout, g.DangerouslyReportOnly, g.Tx.IsoLevel = short, true, level
				g.Hooks.Reported = func(_ context.Context, err error) { seen = append(seen, err) }
			})
			require.NoError(t, untilInTime(func() error {
				seen = nil
				return g.Update(e.ctx(34), resource, e.write(e.bounded(), "B"))
			}))
			require.Equal(t, "B", e.writer())
			require.Len(t, seen, 1)
			require.ErrorContains(t, seen[0], "account/42#34 was not compared with the mark")
			tx := e.open(pgx.TxOptions{})
			require.NoError(t, g.Join(e.ctx(34), tx, resource), "and inside a transaction")
			require.NoError(t, tx.Commit(e.bounded()))
			require.Len(t, seen, 2)
			require.NoError(t, letGo(), "the older writer was not ended")
		})
	}
}

// hazard G25
func TestSuccessorIsNotStarved(t *testing.T) {
	t.Parallel()
	// crowd starts new writers of token 33 such that one is always inside, as long as
	// they are admitted: each leaves when the next one has entered. If givesUp, the last
	// one also leaves if no other enters.
	crowd := func(e *env, givesUp bool, admit func(ctx context.Context, fn func() error) error, succeed func() error) error {
		ctx, stop := context.WithCancel(e.ctx(33))
		var entered atomic.Int64
		var group sync.WaitGroup
		for range writers {
			group.Go(func() {
				for ctx.Err() == nil {
					_ = admit(ctx, func() error {
						mine := entered.Add(1)
						for waited := 0; entered.Load() == mine && (waited < 500 || !givesUp) && ctx.Err() == nil; waited++ {
							time.Sleep(time.Millisecond)
						}
						return nil
					})
				}
			})
		}
		e.await("a crowd", func() bool { return entered.Load() > 3*writers })
		err := succeed()
		stop()
		group.Wait()
		return err
	}
	inEnv(t, "the claim gets through the crowd", func(t *testing.T, e *env) {
		e.admitted(33)
		err := crowd(e, true, func(ctx context.Context, fn func() error) error {
			return e.guard.Update(ctx, resource, func(pgx.Tx) error { return fn() })
		}, func() error {
			return e.guard.Admit(e.bounded(), token.Token{Resource: resource, Number: 34, Holder: "h34"})
		})
		require.NoError(t, err)
		require.Equal(t, "34 h34", e.mark(resource))
	})
	inEnv(t, "after FOR SHARE it waits in vain", func(t *testing.T, e *env) {
		e.admitted(33)
		err := crowd(e, false, func(ctx context.Context, fn func() error) error {
			return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, e.sql("SELECT FROM marks WHERE resource = 'account/42' AND number = 33 FOR SHARE"))
				if err != nil {
					return err
				}
				return fn()
			})
		}, func() error {
			_, err := e.pool.Exec(e.bounded(), e.sql("SET statement_timeout = '500ms'; UPDATE marks SET number = 34 WHERE resource = 'account/42'; RESET statement_timeout"))
			return err
		})
		require.ErrorContains(t, err, "57014", "the twin must starve")
	})
}

// hazard G17
func TestRaisingAtOnce(t *testing.T) {
	t.Parallel()
	inEnv(t, "share first, raise then: two writers deadlock", func(t *testing.T, e *env) {
		e.admitted(33)
		both := make(chan struct{}, 2)
		raise := func(tx pgx.Tx) error {
			ctx := e.bounded()
			if _, err := tx.Exec(ctx, e.sql("SELECT FROM marks WHERE resource = 'account/42' FOR SHARE")); err != nil {
				return err
			}
			both <- struct{}{}
			for len(both) < 2 && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			_, err := tx.Exec(ctx, e.sql("UPDATE marks SET number = number + 1 WHERE resource = 'account/42'"))
			return err
		}
		a := async(func() error { return pgx.BeginFunc(t.Context(), e.pool, raise) })
		b := async(func() error { return pgx.BeginFunc(t.Context(), e.pool, raise) })
		text := fmt.Sprint(await(t, a), await(t, b))
		require.Contains(t, text, "40P01", "the twin must deadlock")
	})
	inEnv(t, "sixteen first writers, round after round: one each is admitted, none deadlocks", func(t *testing.T, e *env) {
		for round := range int64(10) {
			var mu sync.Mutex
			var inside []int64 // in the order in which they were in
			b := newBarrier()
			for i, err := range all(func(i int) error {
				ctx := e.ctx(100*round + int64(i%4) + 1)
				if err := b.pass(ctx); err != nil {
					return err
				}
				return e.guard.Update(ctx, resource, func(pgx.Tx) error {
					mu.Lock()
					defer mu.Unlock()
					inside = append(inside, int64(i%4))
					return nil
				})
			}) {
				if i%4 == 3 {
					require.NoError(t, err, "the newest is always admitted")
				} else if err != nil {
					require.ErrorIs(t, err, guard.ErrStale)
				}
			}
			require.IsNonDecreasing(t, inside, "an older token was admitted after a newer one")
		}
	})
}

func TestBehindALocker(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	locker := lock.Locker{Issuer: &memtoken.Issuer{}, TTL: patient, Claim: e.guard.Admit}
	var inside context.Context
	for _, writer := range []string{"first", "second"} {
		require.NoError(t, locker.Hold(e.bounded(), resource, func(ctx context.Context) error {
			tok, err := token.FromContext(ctx, resource)
			require.NoError(t, err)
			require.Equal(t, query[string](e, "SELECT $1::bigint || ' ' || $2", tok.Number, tok.Holder), e.mark(resource), "claimed before the work begins")
			inside = ctx
			return e.guard.Update(ctx, resource, e.write(ctx, writer))
		}))
		require.Equal(t, writer, e.writer())
	}
	for name, door := range doors(e, e.guard) {
		// A writer that outlives its Hold must not write, even without a later holder.
		require.ErrorIs(t, door(context.WithoutCancel(inside), "late"), token.ErrReleased, name)
	}
	require.Equal(t, "second", e.writer())
}
