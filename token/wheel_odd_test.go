package token_test

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// forgetful leaves the renewals of a batch without an answer.
type forgetful struct{ memtoken.Issuer }

func (*forgetful) RenewAll(context.Context, []token.Renewal) {}

// hazard L1
func TestARenewalWithoutAnAnswerIsNone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		start := time.Now()
		held, err := (&token.Locker{Issuer: new(forgetful), TTL: ttl}).Acquire(t.Context(), account)
		require.NoError(t, err)
		<-held.Context().Done()
		require.Equal(t, ttl-ttl/10, time.Since(start))
		_ = held.Release(t.Context()) // it was lost
	})
}

// hazard L1
func TestAnAtMostBeyondAllTimeStopsNoWheel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		for _, bound := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1} {
			held, err := (&token.Locker{Issuer: &w, TTL: ttl, AtMost: bound}).Acquire(t.Context(), account)
			require.NoError(t, err)
			time.Sleep(10 * ttl)
			require.NoError(t, held.Context().Err())
			require.ErrorIs(t, (&token.Locker{Issuer: &w}).TryHold(t.Context(), account, nothing), token.ErrHeld)
			require.NoError(t, held.Release(t.Context()))
		}
	})
}

// brief hands over for a third of the ttl, as an issuer may.
type brief struct{ wire }

func (b *brief) Wait(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	return b.Acquire(ctx, resource, holder, ttl/3)
}

func TestAShortHandOverIsMadeWhole(t *testing.T) {
	for name, locker := range map[string]token.Locker{
		"its end is within the margin": {TTL: ttl, Margin: ttl / 2},
		"the defaults":                 {TTL: ttl},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var b brief
				l := token.Locker{Issuer: &b, TTL: locker.TTL, Margin: locker.Margin}
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
		held, err := (&token.Locker{Issuer: &b, TTL: ttl}).Acquire(t.Context(), account)
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
		slow := token.Observer{Renewed: func(context.Context, token.Token, time.Duration) { time.Sleep(2 * ttl) }}
		leases := crew(t, &token.Locker{Issuer: new(coach), TTL: ttl, Observer: slow}, 10, 0)
		time.Sleep(ttl)
		for _, held := range leases {
			require.NoError(t, held.Context().Err())
		}
		dismiss(t, leases)
		time.Sleep(time.Minute) // the hooks end
	})
}

func TestAHookMayRelease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var holder atomic.Pointer[token.Lease]
		released := 0
		locker := token.Locker{Issuer: new(memtoken.Issuer), TTL: ttl, AtLeast: ttl, Observer: token.Observer{
			Renewed: func(ctx context.Context, _ token.Token, _ time.Duration) { _ = holder.Load().Release(ctx) },
			Released: func(ctx context.Context, _ token.Token, _ time.Duration, _ error) {
				_ = holder.Load().Release(ctx)
				released++
			},
		}}
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

// plain cannot be compared, and wraps nothing.
type plain struct {
	*memtoken.Issuer
	_ []int
}

func TestAnIssuerThatCannotBeComparedHoldsButDoesNotNest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		locker := token.Locker{Issuer: plain{Issuer: new(memtoken.Issuer)}, TTL: ttl}
		require.ErrorIs(t, locker.Hold(t.Context(), account, func(ctx context.Context) error {
			time.Sleep(10 * ttl)
			require.NoError(t, ctx.Err())
			return locker.Hold(ctx, account, nothing)
		}), token.ErrForeign)
	})
}
