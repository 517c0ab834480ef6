package sqlguard_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

func TestWaitingForOlderWriters(t *testing.T) {
	t.Parallel()
	// busy is an older writer that stays until the test lets go.
	busy := func(e *env) (letGo func() error) {
		e.admitted(33)
		begun, over := make(chan struct{}), make(chan struct{})
		done := async(func() error {
			g := e.with(func(g *sqlguard.Guard) { g.Idle = -1 })
			return g.Update(e.ctx(33), resource, func(pgx.Tx) error { close(begun); <-over; return nil })
		})
		<-begun
		return func() error { close(over); return await(e.t, done) }
	}
	t.Run("inside a transaction nobody is evicted: retryable", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		letGo := busy(e)
		g := e.with(func(g *sqlguard.Guard) { g.Idle = short })
		err := g.Join(e.ctx(34), e.open(pgx.TxOptions{}), resource)
		require.Equal(t, []error{guard.ErrRetryable}, outcomes(err))
		require.NoError(t, letGo())
	})
	t.Run("where eviction is not permitted it waits on", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		letGo := busy(e)
		e.mutate("evict", "RETURN (SELECT count(*)", "RAISE insufficient_privilege; RETURN (SELECT count(*)")
		g := e.with(func(g *sqlguard.Guard) { g.Idle = time.Millisecond })
		ctx, cancel := context.WithTimeout(e.bounded(), 2*time.Second)
		defer cancel()
		err := g.Admit(ctx, token.Token{Resource: resource, Number: 34, Holder: "h34"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		claim := async(func() error { return g.Admit(e.bounded(), token.Token{Resource: resource, Number: 34, Holder: "h34"}) })
		require.NoError(t, letGo(), "the older writer was not ended")
		require.NoError(t, await(t, claim))
	})
	t.Run("the session's own lock_timeout ends nobody before their time", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		letGo := busy(e)
		pool, _ := wired(t, 1, withSetting("lock_timeout", "10ms"))
		g := e.with(func(g *sqlguard.Guard) { g.DB = pool; g.Idle = ceiling })
		claim := async(func() error { return g.Update(e.ctx(34), resource, e.write(e.bounded(), "B")) })
		select {
		case err := <-claim:
			require.Fail(t, "it did not wait", "%v", err)
		case <-time.After(short):
		}
		require.NoError(t, letGo(), "the older writer was not ended")
		require.NoError(t, await(t, claim))
	})
	for _, level := range levels {
		t.Run("observing under "+string(level)+", it goes on without, and says so", func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			letGo := busy(e)
			var seen []error
			g := e.with(func(g *sqlguard.Guard) {
				g.Idle, g.DangerouslyObserve, g.Tx.IsoLevel = short, true, level
				g.Observer.Observed = func(_ context.Context, err error) { seen = append(seen, err) }
			})
			require.NoError(t, g.Update(e.ctx(34), resource, e.write(e.bounded(), "B")))
			require.Equal(t, "B", e.writer())
			require.Len(t, seen, 1)
			require.ErrorContains(t, seen[0], "account/42#34 was not judged")
			tx := e.open(pgx.TxOptions{})
			require.NoError(t, g.Join(e.ctx(34), tx, resource), "and inside a transaction")
			require.NoError(t, tx.Commit(e.bounded()))
			require.Len(t, seen, 2)
			require.NoError(t, letGo(), "the older writer was not ended")
		})
	}
}
