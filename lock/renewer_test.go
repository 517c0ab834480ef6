package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// batchIssuer renews in batches, and records their sizes.
type batchIssuer struct {
	memtoken.Issuer
	mu      sync.Mutex
	batches []int
	fail    func(tok token.Token) error
	hang    bool
}

func (c *batchIssuer) Renew(context.Context, token.Token, time.Duration) (time.Time, error) {
	return time.Time{}, errors.New("it renews in batches")
}

func (c *batchIssuer) RenewAll(ctx context.Context, batch []token.Renewal) {
	c.mu.Lock()
	c.batches = append(c.batches, len(batch))
	fail, hang := c.fail, c.hang
	c.mu.Unlock()
	if hang {
		<-ctx.Done()
	}
	for n := range batch {
		r := &batch[n]
		if r.Err = context.Cause(ctx); r.Err == nil && fail != nil {
			r.Err = fail(r.Token)
		}
		if r.Err == nil {
			r.Until, r.Err = c.Issuer.Renew(ctx, r.Token, r.TTL)
		}
	}
}

// sent returns how many batches were sent.
func (c *batchIssuer) sent() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.batches)
}

// acquireMany acquires n resources, one at a time, and returns their leases.
func acquireMany(t *testing.T, locker *lock.Locker, n int, apart time.Duration) []*lock.Lease {
	t.Helper()
	leases := make([]*lock.Lease, n)
	for i := range leases {
		held, err := locker.Acquire(t.Context(), fmt.Sprintf("member/%d", i))
		require.NoError(t, err)
		leases[i] = held
		time.Sleep(apart)
	}
	return leases
}

func releaseAll(t *testing.T, leases []*lock.Lease) {
	t.Helper()
	for _, held := range leases {
		require.NoError(t, held.Release(t.Context()))
	}
}

func TestLeasesThatFallDueTogetherAreRenewedTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var c batchIssuer
		locker := lock.Locker{Issuer: &c, TTL: 15 * time.Second, DangerouslyWithoutClaim: true}
		leases := acquireMany(t, &locker, 1000, 5*time.Millisecond) // for 5 s: evenly over a third of the ttl
		before := c.sent()
		time.Sleep(100 * time.Second)
		for _, held := range leases {
			require.NoError(t, held.Context().Err())
		}
		sent := c.sent() - before
		require.LessOrEqual(t, sent, 1000+20, "ten batches a second, and not one for each lease")
		require.Greater(t, sent, 100)
		releaseAll(t, leases)
	})
}

func TestARenewalThatFailsSpoilsNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := batchIssuer{fail: func(tok token.Token) error {
			if tok.Resource == "member/3" {
				return errCut
			}
			return nil
		}}
		leases := acquireMany(t, &lock.Locker{Issuer: &c, TTL: ttl, DangerouslyWithoutClaim: true}, 10, 0)
		<-leases[3].Context().Done()
		require.ErrorIs(t, context.Cause(leases[3].Context()), errCut, "the last error is the cause")
		time.Sleep(10 * ttl)
		for i, held := range leases {
			require.Equal(t, i == 3, held.Context().Err() != nil, "%d", i)
		}
		_ = leases[3].Release(t.Context()) // it was lost
		releaseAll(t, append(leases[:3:3], leases[4:]...))
	})
}

// hazard L1
func TestABatchThatHangsDelaysNoEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := batchIssuer{hang: true}
		start := time.Now()
		leases := acquireMany(t, &lock.Locker{Issuer: &c, TTL: ttl, DangerouslyWithoutClaim: true}, 10, 0)
		ended := make([]time.Duration, len(leases))
		for i, held := range leases {
			context.AfterFunc(held.Context(), func() { ended[i] = time.Since(start) })
		}
		time.Sleep(ttl)
		synctest.Wait()
		for i := range leases {
			require.Equal(t, ttl-ttl/10, ended[i], "a margin before the issuer's end")
			_ = leases[i].Release(t.Context()) // it was lost
		}
	})
}

// A lease with little time left must not bound the others' renewals.
func TestShortLeasesAndLongOnesAreRenewedApart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var c batchIssuer
		long := acquireMany(t, &lock.Locker{Issuer: &c, TTL: time.Minute, DangerouslyWithoutClaim: true}, 1, 0)
		hasty, err := (&lock.Locker{Issuer: &c, TTL: 60 * time.Millisecond, DangerouslyWithoutClaim: true}).Acquire(t.Context(), "hasty")
		require.NoError(t, err)
		time.Sleep(5 * time.Minute)
		require.NoError(t, errors.Join(hasty.Context().Err(), long[0].Context().Err()))
		releaseAll(t, append(long, hasty))
		c.mu.Lock()
		defer c.mu.Unlock()
		require.NotContains(t, c.batches, 2)
	})
}

// hazard L6
func TestARenewerWithoutLeasesDoesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var c batchIssuer
		for range 3 {
			releaseAll(t, acquireMany(t, &lock.Locker{Issuer: &c, TTL: ttl, DangerouslyWithoutClaim: true}, 5, ttl/10))
			synctest.Wait()
			require.False(t, lock.HasRenewer(&c), "an unused issuer can be collected")
			before := c.sent()
			time.Sleep(time.Minute)
			require.Equal(t, before, c.sent())
		}
	})
}

// forgetful leaves the renewals of a batch without a result.
type forgetful struct{ memtoken.Issuer }

func (*forgetful) RenewAll(context.Context, []token.Renewal) {}

// hazard L1
func TestARenewalWithoutAnAnswerIsNone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		start := time.Now()
		held, err := (&lock.Locker{Issuer: new(forgetful), TTL: ttl, DangerouslyWithoutClaim: true}).Acquire(t.Context(), account)
		require.NoError(t, err)
		<-held.Context().Done()
		require.Equal(t, ttl-ttl/10, time.Since(start))
		_ = held.Release(t.Context()) // it was lost
	})
}

// hazard L1
func TestAHoldAtMostBeyondAllTimeStopsNoRenewal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		for _, bound := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1} {
			held, err := (&lock.Locker{Issuer: &w, TTL: ttl, HoldAtMost: bound, DangerouslyWithoutClaim: true}).Acquire(t.Context(), account)
			require.NoError(t, err)
			time.Sleep(10 * ttl)
			require.NoError(t, held.Context().Err())
			require.ErrorIs(t, noWait(&lock.Locker{Issuer: &w, DangerouslyWithoutClaim: true}).Hold(t.Context(), account, nothing), token.ErrHeld)
			require.NoError(t, held.Release(t.Context()))
		}
	})
}

// brief grants for a third of the ttl at first, as an issuer may.
type brief struct{ wire }

func (b *brief) Wait(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	return b.Acquire(ctx, resource, holder, ttl/3)
}

func TestAShortHandOverIsMadeWhole(t *testing.T) {
	for name, locker := range map[string]lock.Locker{
		"its end is within the margin": {TTL: ttl, SafetyMargin: ttl / 2, DangerouslyWithoutClaim: true},
		"the defaults":                 {TTL: ttl, DangerouslyWithoutClaim: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var b brief
				l := lock.Locker{Issuer: &b, TTL: locker.TTL, SafetyMargin: locker.SafetyMargin, DangerouslyWithoutClaim: true}
				require.NoError(t, l.Hold(t.Context(), account, func(ctx context.Context) error {
					time.Sleep(10 * ttl)
					return ctx.Err()
				}))
			})
		})
	}
}

func TestOneRenewalThatHangsDoesNotLoseAHandOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var b brief
		b.renew.set(hangs)
		held, err := (&lock.Locker{Issuer: &b, TTL: ttl, DangerouslyWithoutClaim: true}).Acquire(t.Context(), account)
		require.NoError(t, err)
		for b.renew.calls.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		b.renew.set(works)
		time.Sleep(10 * ttl)
		require.NoError(t, held.Context().Err())
		require.NoError(t, held.Release(t.Context()))
	})
}

func TestASlowHookLosesNoOtherLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		slow := lock.Hooks{Renewed: func(context.Context, token.Token, time.Duration) { time.Sleep(2 * ttl) }}
		leases := acquireMany(t, &lock.Locker{Issuer: new(batchIssuer), TTL: ttl, Hooks: slow, DangerouslyWithoutClaim: true}, 10, 0)
		time.Sleep(ttl)
		for _, held := range leases {
			require.NoError(t, held.Context().Err())
		}
		releaseAll(t, leases)
		time.Sleep(time.Minute) // the hooks end
	})
}

func TestAHookMayRelease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var holder atomic.Pointer[lock.Lease]
		released := 0
		locker := lock.Locker{Issuer: new(memtoken.Issuer), TTL: ttl, HoldAtLeast: ttl, Hooks: lock.Hooks{
			Renewed: func(ctx context.Context, _ token.Token, _ time.Duration) { _ = holder.Load().Release(ctx) },
			Released: func(ctx context.Context, _ token.Token, _ time.Duration, _ error) {
				_ = holder.Load().Release(ctx)
				released++
			},
		}, DangerouslyWithoutClaim: true}
		start := time.Now()
		held, err := locker.Acquire(t.Context(), account)
		require.NoError(t, err)
		holder.Store(held)
		<-held.Context().Done()
		require.NoError(t, held.Release(t.Context()))
		require.Less(t, time.Since(start), ttl/2, "it does not wait for itself")
		synctest.Wait()
		require.Equal(t, 1, released)
	})
}

// plain cannot be compared, and is not a wrapper.
type plain struct {
	*memtoken.Issuer
	_ []int
}

func TestAnIssuerThatCannotBeComparedHoldsButDoesNotNest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		locker := lock.Locker{Issuer: plain{Issuer: new(memtoken.Issuer)}, TTL: ttl, DangerouslyWithoutClaim: true}
		require.ErrorIs(t, locker.Hold(t.Context(), account, func(ctx context.Context) error {
			time.Sleep(10 * ttl)
			require.NoError(t, ctx.Err())
			return locker.Hold(ctx, account, nothing)
		}), lock.ErrNotLeased)
	})
}
