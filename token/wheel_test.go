package token_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// coach is an issuer that renews many at once, and notes how many.
type coach struct {
	memtoken.Issuer
	mu      sync.Mutex
	batches []int
	fail    func(tok token.Token) error
	hang    bool
}

func (c *coach) Renew(context.Context, token.Token, time.Duration) (time.Time, error) {
	return time.Time{}, errors.New("it renews in batches")
}

func (c *coach) RenewAll(ctx context.Context, batch []token.Renewal) {
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

// sent is how many batches were sent.
func (c *coach) sent() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.batches)
}

// crew acquires n resources, one at a time, and returns their leases.
func crew(t *testing.T, locker *token.Locker, n int, apart time.Duration) []*token.Lease {
	t.Helper()
	leases := make([]*token.Lease, n)
	for i := range leases {
		held, err := locker.Acquire(t.Context(), fmt.Sprintf("member/%d", i))
		require.NoError(t, err)
		leases[i] = held
		time.Sleep(apart)
	}
	return leases
}

func dismiss(t *testing.T, leases []*token.Lease) {
	t.Helper()
	for _, held := range leases {
		require.NoError(t, held.Release(t.Context()))
	}
}

func TestLeasesThatFallDueTogetherAreRenewedTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var c coach
		locker := token.Locker{Issuer: &c, TTL: 15 * time.Second}
		leases := crew(t, &locker, 1000, 5*time.Millisecond) // 5 s: evenly over a third of the ttl
		before := c.sent()
		time.Sleep(100 * time.Second)
		for _, held := range leases {
			require.NoError(t, held.Context().Err())
		}
		sent := c.sent() - before
		require.LessOrEqual(t, sent, 1000+20, "ten batches a second, and not one for each lease")
		require.Greater(t, sent, 100)
		dismiss(t, leases)
	})
}

func TestARenewalThatFailsSpoilsNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := coach{fail: func(tok token.Token) error {
			if tok.Resource == "member/3" {
				return errCut
			}
			return nil
		}}
		leases := crew(t, &token.Locker{Issuer: &c, TTL: ttl}, 10, 0)
		<-leases[3].Context().Done()
		require.ErrorIs(t, context.Cause(leases[3].Context()), errCut, "the last answer is told")
		time.Sleep(10 * ttl)
		for i, held := range leases {
			require.Equal(t, i == 3, held.Context().Err() != nil, "%d", i)
		}
		_ = leases[3].Release(t.Context()) // it was lost
		dismiss(t, append(leases[:3:3], leases[4:]...))
	})
}

// hazard L1
func TestABatchThatHangsDelaysNoEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := coach{hang: true}
		start := time.Now()
		leases := crew(t, &token.Locker{Issuer: &c, TTL: ttl}, 10, 0)
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

// A lease with little time left is not what bounds the others' renewals.
func TestShortLeasesAndLongOnesAreRenewedApart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var c coach
		long := crew(t, &token.Locker{Issuer: &c, TTL: time.Minute}, 1, 0)
		hasty, err := (&token.Locker{Issuer: &c, TTL: 60 * time.Millisecond}).Acquire(t.Context(), "hasty")
		require.NoError(t, err)
		time.Sleep(5 * time.Minute)
		require.NoError(t, errors.Join(hasty.Context().Err(), long[0].Context().Err()))
		dismiss(t, append(long, hasty))
		c.mu.Lock()
		defer c.mu.Unlock()
		require.NotContains(t, c.batches, 2)
	})
}

// hazard L6
func TestAWheelWithoutLeasesDoesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var c coach
		for range 3 {
			dismiss(t, crew(t, &token.Locker{Issuer: &c, TTL: ttl}, 5, ttl/10))
			synctest.Wait()
			require.False(t, token.HasWheel(&c), "an issuer that nobody uses can be collected")
			before := c.sent()
			time.Sleep(time.Minute)
			require.Equal(t, before, c.sent())
		}
	})
}
