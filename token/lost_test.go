package token_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
)

// firstOther returns when somebody else, who stands beside the issuer and
// tries all the time, was granted the account.
func firstOther(t *testing.T, w *wire) time.Time {
	t.Helper()
	for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(5 * time.Millisecond) {
		if _, err := w.far.Acquire(t.Context(), account, "other", time.Hour); err == nil {
			return time.Now()
		}
	}
	t.Fatal("nobody else ever gets it")
	return time.Time{}
}

// hazard L1
func TestALeaseEndsBeforeAnotherHolderCanCome(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{
		"renewals fail": fails, "renewals hang": hangs, "renewals cannot be cancelled": deaf, "replies are lost": dumb,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(100) {
				synctest.Test(t, func(t *testing.T) { loseOnce(t, f, rand.New(rand.NewPCG(seed, 0))) })
				require.False(t, t.Failed(), "seed %d", seed)
			}
		})
	}
}

func loseOnce(t *testing.T, f fault, rng *rand.Rand) {
	t.Helper()
	w := wire{there: upTo(rng, ttl/5), back: upTo(rng, ttl/5)}
	held, err := (&token.Locker{Issuer: &w, TTL: ttl}).Acquire(t.Context(), account)
	require.NoError(t, err)
	var ended time.Time
	context.AfterFunc(held.Context(), func() { ended = time.Now() })
	time.AfterFunc(upTo(rng, 3*ttl), func() { w.renew.set(f) })

	taken := firstOther(t, &w)
	synctest.Wait()
	require.ErrorIs(t, context.Cause(held.Context()), token.ErrLost)
	require.True(t, ended.Before(taken), "it ended %s after another had it", ended.Sub(taken))
	time.Sleep(time.Hour) // what cannot be cancelled ends too
}

// hazard L1
func TestADeadlineThatIsAnchoredAtTheReplyOverlaps(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			w := wire{there: upTo(rng, ttl/5), back: 10*time.Millisecond + upTo(rng, ttl/5)}
			_, err := w.Acquire(t.Context(), account, "twin", ttl)
			require.NoError(t, err)
			naive, cancel := context.WithTimeout(t.Context(), ttl) // no margin either
			defer cancel()
			firstOther(t, &w)
			require.NoError(t, naive.Err(), "seed %d: two hold", seed)
		})
	}
}

// hazard L4
func TestALostLeaseIsNotTakenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		first, err := (&token.Locker{Issuer: &w, TTL: ttl}).Acquire(t.Context(), account)
		require.NoError(t, err)
		require.NoError(t, w.far.Release(t.Context(), first.Token())) // the issuer forgets
		next := taken(t, &w)
		start := time.Now()
		<-first.Context().Done()
		require.ErrorIs(t, context.Cause(first.Context()), token.ErrLost)
		require.LessOrEqual(t, time.Since(start), ttl/3, "the first renewal hears of it")
		time.Sleep(10 * ttl)
		require.NoError(t, next.Context().Err())
		require.ErrorIs(t, first.Release(t.Context()), token.ErrLost)
		require.NoError(t, next.Release(t.Context()))
		free(t, &w)
	})
}

// thief renews as a known library can be told to: it sets what is not set.
type thief struct{ wire }

func (i *thief) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	grant, err := i.Acquire(ctx, tok.Resource, tok.Holder, ttl)
	return grant.Until, err
}

// hazard L4
func TestARenewalThatAcquiresHidesTheLoss(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var iss thief
		var balance int
		require.NoError(t, (&token.Locker{Issuer: &iss, TTL: ttl}).Hold(t.Context(), account, func(ctx context.Context) error {
			read := balance
			require.NoError(t, iss.far.Release(t.Context(), fromContext(t, ctx, account))) // the issuer forgets
			require.NoError(t, (&token.Locker{Issuer: &iss.wire}).TryHold(t.Context(), account, func(context.Context) error {
				balance += 50
				return nil
			}))
			time.Sleep(10 * ttl)
			balance = read + 100
			return context.Cause(ctx)
		}), "it never hears of it")
		require.Equal(t, 100, balance, fmt.Sprintf("the other holder's 50 are lost, or the twin is no twin: %d", balance))
	})
}

func upTo(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(d)))
}
