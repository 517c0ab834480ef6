package lock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

// firstOther tries to acquire all the time, without latency, and returns the time at
// which it was granted the account.
func firstOther(t *testing.T, w *wire) time.Time {
	t.Helper()
	for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(5 * time.Millisecond) {
		if _, err := w.far.Acquire(t.Context(), account, "other", time.Hour); err == nil {
			return time.Now()
		}
	}
	t.Fatal("no other holder was granted the account")
	return time.Time{}
}

// hazard L1
func TestALeaseEndsBeforeAnotherHolderCanCome(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{
		"renewals fail": fails, "renewals hang": hangs, "renewals cannot be cancelled": ignoresCancel, "replies are lost": withholdsReplies,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(30) {
				synctest.Test(t, func(t *testing.T) { loseOnce(t, f, rand.New(rand.NewPCG(seed, 0))) })
				require.False(t, t.Failed(), "seed %d", seed)
			}
		})
	}
}

func loseOnce(t *testing.T, f fault, rng *rand.Rand) {
	t.Helper()
	w := wire{there: upTo(rng, ttl/5), back: upTo(rng, ttl/5)}
	held, err := (&lock.Locker{Issuer: &w, TTL: ttl, DangerouslyWithoutClaim: true}).Acquire(t.Context(), account)
	require.NoError(t, err)
	var ended time.Time
	context.AfterFunc(held.Context(), func() { ended = time.Now() })
	time.AfterFunc(upTo(rng, 3*ttl), func() { w.renew.set(f) })

	taken := firstOther(t, &w)
	synctest.Wait()
	require.ErrorIs(t, context.Cause(held.Context()), token.ErrLost)
	require.True(t, ended.Before(taken), "it ended %s after another had it", ended.Sub(taken))
	time.Sleep(time.Hour) // a call that cannot be cancelled ends too
}

// hazard L1
func TestADeadlineThatIsAnchoredAtTheReplyOverlaps(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			w := wire{there: upTo(rng, ttl/5), back: 10*time.Millisecond + upTo(rng, ttl/5)}
			_, err := w.Acquire(t.Context(), account, "twin", ttl)
			require.NoError(t, err)
			naive, cancel := context.WithTimeout(t.Context(), ttl) // without a margin, too
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
		first, err := (&lock.Locker{Issuer: &w, TTL: ttl, DangerouslyWithoutClaim: true}).Acquire(t.Context(), account)
		require.NoError(t, err)
		require.NoError(t, w.far.Release(t.Context(), first.Token())) // the issuer forgets
		next := taken(t, &w)
		start := time.Now()
		<-first.Context().Done()
		require.ErrorIs(t, context.Cause(first.Context()), token.ErrLost)
		require.LessOrEqual(t, time.Since(start), ttl/3, "the first renewal returns the loss")
		time.Sleep(10 * ttl)
		require.NoError(t, next.Context().Err())
		require.ErrorIs(t, first.Release(t.Context()), token.ErrLost)
		require.NoError(t, next.Release(t.Context()))
		free(t, &w)
	})
}

// thief renews like an option of a known library: it sets a key that is not set.
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
		require.NoError(t, (&lock.Locker{Issuer: &iss, TTL: ttl, DangerouslyWithoutClaim: true}).Hold(t.Context(), account, func(ctx context.Context) error {
			read := balance
			require.NoError(t, iss.far.Release(t.Context(), fromContext(t, ctx, account))) // the issuer forgets
			require.NoError(t, noWait(&lock.Locker{Issuer: &iss.wire, DangerouslyWithoutClaim: true}).Hold(t.Context(), account, func(context.Context) error {
				balance += 50
				return nil
			}))
			time.Sleep(10 * ttl)
			balance = read + 100
			return context.Cause(ctx)
		}), "the loss is never noticed")
		require.Equal(t, 100, balance, fmt.Sprintf("the other holder's 50 are lost, or the twin is no twin: %d", balance))
	})
}

func upTo(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(d)))
}

// The machine is suspended: its monotonic clock stops, and the issuer's continues. When
// the machine resumes, no time has passed for its lease: its context is alive, although
// another holder has the resource.
// hazard L8
func TestALeaseThatSleptWithItsMachineIsRefusedByTheGuard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		require.Equal(t, 110, afterASuspend(t, new(guard.Memory).Admit))
		require.Equal(t, 70, afterASuspend(t, func(ctx context.Context, _ token.Token) error { return ctx.Err() }),
			"the twin goes by its context, and its successor's write is lost")
	})
}

// afterASuspend returns the balance after the suspended holder has tried to write.
func afterASuspend(t *testing.T, admit func(context.Context, token.Token) error) (balance int) {
	t.Helper()
	var w wire
	locker := lock.Locker{Issuer: &w, Claim: admit}
	write := func(held *lock.Lease, amount int) {
		if admit(held.Context(), held.Token()) == nil {
			balance = amount
		}
	}
	slept, err := locker.Acquire(t.Context(), account)
	require.NoError(t, err)
	require.NoError(t, w.far.Release(t.Context(), slept.Token())) // at the issuer, the lease has expired
	successor, err := locker.Acquire(t.Context(), account)
	require.NoError(t, err)
	write(successor, 110)
	require.NoError(t, slept.Context().Err())
	write(slept, 70)
	require.NoError(t, successor.Release(t.Context()))
	_ = slept.Release(t.Context()) // the loss is detected now
	return balance
}

func TestASafetyMarginThatLeavesNoTimeToRenewIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		ttl, margin time.Duration
		text        string
	}{
		"the first renewal comes too late": {300 * time.Millisecond, 210 * time.Millisecond, "lock: Locker's SafetyMargin 210ms is more than half of its TTL 300ms"},
		"just above half":                  {ttl, ttl/2 + 1, "lock: Locker's SafetyMargin 500.000001ms is more than half of its TTL 1s"},
		"the default of a tiny ttl":        {19 * time.Millisecond, 0, "lock: Locker's SafetyMargin 10ms is more than half of its TTL 19ms"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var w wire
				locker := lock.Locker{Issuer: &w, TTL: test.ttl, SafetyMargin: test.margin, DangerouslyWithoutClaim: true}
				for _, err := range everyWay(t, &locker, account) {
					require.EqualError(t, err, test.text)
				}
				require.Zero(t, w.acquire.calls.Load())
			})
		})
	}
}

func TestTheLargestSafetyMarginRenews(t *testing.T) {
	for name, locker := range map[string]lock.Locker{
		"half of the ttl":         {TTL: ttl, SafetyMargin: ttl / 2, DangerouslyWithoutClaim: true},
		"the default of 10 ms":    {TTL: 20 * time.Millisecond, DangerouslyWithoutClaim: true},
		"the default of one more": {TTL: 21 * time.Millisecond, DangerouslyWithoutClaim: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := wire{there: locker.TTL / 40, back: locker.TTL / 40}
				l := lock.Locker{Issuer: &w, TTL: locker.TTL, SafetyMargin: locker.SafetyMargin, DangerouslyWithoutClaim: true}
				require.NoError(t, l.Hold(t.Context(), account, func(ctx context.Context) error {
					time.Sleep(100 * locker.TTL)
					return ctx.Err()
				}))
				require.Greater(t, w.renew.calls.Load(), int64(100))
			})
		})
	}
}
