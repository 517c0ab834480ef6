package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

func TestRenewingKeepsTheLeaseAlive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := wire{there: ttl / 10, back: ttl / 10}
		locker := lock.Locker{Issuer: &w, TTL: ttl, DangerouslyWithoutClaim: true}
		require.NoError(t, locker.Hold(t.Context(), account, func(ctx context.Context) error {
			for range 1000 {
				time.Sleep(ttl / 10)
				require.ErrorIs(t, noWait(&lock.Locker{Issuer: &w.far, DangerouslyWithoutClaim: true}).Hold(t.Context(), account, nil), token.ErrHeld)
			}
			return ctx.Err()
		}))
		require.Greater(t, w.renew.calls.Load(), int64(100))
		free(t, &w)
	})
}

func TestAShortOutageIsSurvived(t *testing.T) {
	for name, f := range map[string]fault{"calls fail": fails, "calls hang": hangs, "replies are lost": dropsReplies} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var w wire
				require.NoError(t, (&lock.Locker{Issuer: &w, TTL: ttl, DangerouslyWithoutClaim: true}).Hold(t.Context(), account, func(ctx context.Context) error {
					for range 10 {
						time.Sleep(10 * ttl)
						w.renew.set(f)
						time.Sleep(ttl / 3)
						w.renew.set(works)
						time.Sleep(ttl / 3) // a call that still blocks must first be cut off
					}
					return ctx.Err()
				}))
			})
		})
	}
}

// hazard L6
func TestRenewingEndsWithTheLease(t *testing.T) {
	for name, end := range map[string]func(w *wire, held *lock.Lease, cancel func()){
		"the context ends": func(_ *wire, _ *lock.Lease, cancel func()) { cancel() },
		"it is released":   func(_ *wire, held *lock.Lease, _ func()) { _ = held.Release(context.Background()) },
		"it is lost":       func(w *wire, held *lock.Lease, _ func()) { _ = w.far.Release(context.Background(), held.Token()) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var w wire
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				held, err := (&lock.Locker{Issuer: &w, TTL: ttl, DangerouslyWithoutClaim: true}).Acquire(ctx, account)
				require.NoError(t, err)
				time.Sleep(10 * ttl)
				end(&w, held, cancel)
				<-held.Context().Done()
				synctest.Wait()
				renewals := w.renew.calls.Load()
				time.Sleep(10 * ttl)
				require.Equal(t, renewals, w.renew.calls.Load())
				free(t, &w)
			})
		})
	}
}

// hazard L6
func TestTheNaiveWatchdogOutlivesTheWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		tok, err := w.Acquire(t.Context(), account, "twin", ttl)
		require.NoError(t, err)
		stop := make(chan struct{})
		go func() { // its goroutine lasts as long as the process, not the work
			for {
				select {
				case <-stop:
					return
				case <-time.After(ttl / 3):
					_, _ = w.Renew(context.Background(), tok.Token, ttl)
				}
			}
		}()
		time.Sleep(100 * ttl) // the work has long ended with an error, without a release
		require.ErrorIs(t, noWait(&lock.Locker{Issuer: &w, DangerouslyWithoutClaim: true}).Hold(t.Context(), account, nil), token.ErrHeld)
		close(stop)
	})
}

// hazard L12
func TestHoldAtMostEndsALeaseThatRenews(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		start := time.Now()
		hung, err := (&lock.Locker{Issuer: &w, TTL: ttl, HoldAtMost: time.Minute, DangerouslyWithoutClaim: true}).Acquire(t.Context(), account)
		require.NoError(t, err)
		next, err := (&lock.Locker{Issuer: &w, WaitTimeout: 10 * time.Minute, DangerouslyWithoutClaim: true}).Acquire(t.Context(), account)
		require.NoError(t, err)
		require.ErrorIs(t, context.Cause(hung.Context()), token.ErrLost)
		require.ErrorContains(t, context.Cause(hung.Context()), "held for HoldAtMost 1m0s")
		require.GreaterOrEqual(t, time.Since(start), time.Minute)
		require.Less(t, time.Since(start), time.Minute+2*ttl)
		require.NoError(t, next.Release(t.Context()))

		// The twin has no bound: the job hangs, and renews for as long as it hangs.
		hung = taken(t, &w)
		err = (&lock.Locker{Issuer: &w, WaitTimeout: 10 * time.Minute, DangerouslyWithoutClaim: true}).Hold(t.Context(), account, nil)
		require.ErrorIs(t, err, lock.ErrWaitTimeout)
		require.NoError(t, hung.Release(t.Context()))
	})
}

// hazard L11
func TestWaitTimeoutDoesNotEndTheWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		work := func(ctx context.Context) error {
			time.Sleep(10 * time.Minute)
			return ctx.Err()
		}
		locker := lock.Locker{Issuer: &w, TTL: ttl, WaitTimeout: time.Minute, DangerouslyWithoutClaim: true}
		require.NoError(t, locker.Hold(t.Context(), account, work))

		// The twin bounds its wait by the context that it works under.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		locker.WaitTimeout = 0
		require.ErrorIs(t, locker.Hold(ctx, account, work), context.DeadlineExceeded)
	})
}
