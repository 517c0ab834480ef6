package simulations_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// inFakeTime runs a test once with each issuer, each in its own bubble.
func inFakeTime(t *testing.T, tell func(t *testing.T, s *site)) {
	for name, s := range map[string]func(*testing.T) *site{"memory": inMemory, "Redis": onRedis} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tell(t, s(t))
				time.Sleep(time.Minute) // for messages that are still in the network
			})
		})
	}
}

// hazard G3
func TestInFakeTimeAPauseIsSurvived(t *testing.T) {
	t.Parallel()
	pause := func(t *testing.T, ctx context.Context, s *site) (*store, error) {
		p := newWorld(ctx, 1, s)
		a, b := p.process("A", 0), p.process("B", 0)
		first := &lock.Locker{Issuer: a, Claim: a.Claim} // for 10 s
		lease, err := first.Acquire(ctx, disputed)
		require.NoError(t, err)
		seen := p.store.read()
		var others sync.WaitGroup
		others.Go(func() {
			next := &lock.Locker{Issuer: b, Claim: b.Claim}
			err := next.Hold(ctx, disputed, func(ctx context.Context) error { return b.add(ctx, p.store.read()) })
			require.NoError(t, err)
		})
		a.freeze(time.Minute)
		a.thaw()
		others.Wait()
		require.ErrorIs(t, context.Cause(lease.Context()), token.ErrLost)
		err = a.add(lease.Context(), seen)
		require.ErrorIs(t, lease.Release(ctx), token.ErrLost)
		return p.store, err
	}
	t.Run("the late write is refused", func(t *testing.T) {
		t.Parallel()
		inFakeTime(t, func(t *testing.T, s *site) {
			p, err := pause(t, t.Context(), s)
			require.ErrorIs(t, err, guard.ErrStale)
			require.Zero(t, p.lost())
		})
	})
	t.Run("report-only, a unit is lost", func(t *testing.T) {
		t.Parallel()
		inFakeTime(t, func(t *testing.T, s *site) {
			p, err := pause(t, failpoint.Unguarded(t.Context()), s)
			require.NoError(t, err)
			require.Equal(t, 1, p.lost())
		})
	})
}

func TestInFakeTimeALeaseIsRenewedForAnHour(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *testing.T, s *site) {
		locker := &lock.Locker{Issuer: newWorld(t.Context(), 1, s).process("A", 0), DangerouslyWithoutClaim: true}
		began := time.Now()
		require.NoError(t, locker.Hold(t.Context(), disputed, func(ctx context.Context) error {
			time.Sleep(time.Hour)
			require.ErrorIs(t, (&lock.Locker{Issuer: s.issuer(), NoWait: true, DangerouslyWithoutClaim: true}).Hold(t.Context(), disputed, nil), token.ErrHeld)
			return context.Cause(ctx)
		}))
		require.Less(t, time.Since(began), time.Hour+time.Second)
	})
}

// hazard L12
func TestInFakeTimeAHungJobLosesItsLeaseAtAtMost(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *testing.T, s *site) {
		locker := &lock.Locker{Issuer: s.issuer(), HoldAtMost: time.Hour, DangerouslyWithoutClaim: true}
		began := time.Now()
		err := locker.Hold(t.Context(), disputed, func(ctx context.Context) error {
			<-ctx.Done()
			require.Equal(t, time.Hour, time.Since(began), "to the nanosecond")
			return nil
		})
		require.ErrorIs(t, err, token.ErrLost)
	})
}

// Twenty wait for the end of a lease whose holder is no more. hazard L7
func TestInFakeTimeAHerdOfWaitersGetsThroughOneByOne(t *testing.T) {
	t.Parallel()
	const herd = 20
	inFakeTime(t, func(t *testing.T, s *site) {
		p := newWorld(t.Context(), 1, s)
		_, err := s.issuer().Acquire(t.Context(), disputed, "dead", 10*time.Second)
		require.NoError(t, err)
		var waiters sync.WaitGroup
		for range herd {
			waiter := p.process("W", 0)
			locker := &lock.Locker{Issuer: s.issuer(), Claim: waiter.Claim}
			waiters.Go(func() {
				require.NoError(t, locker.Hold(t.Context(), disputed, func(ctx context.Context) error {
					seen := p.store.read()
					time.Sleep(10 * time.Millisecond)
					return waiter.add(ctx, seen)
				}))
			})
		}
		waiters.Wait()
		require.Equal(t, herd, p.store.read().value)
		require.Zero(t, p.lost())
		require.GreaterOrEqual(t, p.Now(), 10*time.Second)
	})
}

// onRedis is a Redis in memory, with its scripts and expiries in fake time. Each issuer has a
// client of its own. The server's clock can jump.
func onRedis(t *testing.T) *site {
	t.Helper()
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	t.Cleanup(server.Close)
	var skew atomic.Int64
	tick := ticking(func() { server.SetTime(time.Now().Add(time.Duration(skew.Load()))) })
	s := &site{forget: server.FlushAll, jump: func(d time.Duration) { skew.Add(int64(d)) }}
	s.issuer = func() token.Issuer {
		client := redis.NewClient(&redis.Options{
			Addr:       "127.0.0.1:6379", // a name would be resolved outside the bubble
			Dialer:     func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
			MaxRetries: -1,
			// A caller that waits for a connection takes a timer from a pool that
			// all bubbles share.
			PoolSize: 1000,
		})
		client.AddHook(tick)
		t.Cleanup(func() { client.Close() })
		iss := &redistoken.Issuer{Client: client}
		t.Cleanup(func() { require.NoError(t, iss.Close()) }) // a bubble reports goroutines that are left
		return iss
	}
	return s
}

// ticking sets the server's clock before each command.
type ticking func()

func (ticking) DialHook(next redis.DialHook) redis.DialHook { return next }

func (tick ticking) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		tick()
		return next(ctx, cmd)
	}
}

func (tick ticking) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		tick()
		return next(ctx, cmds)
	}
}
