package lock_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

var errWork = errors.New("out of stock")

func TestHoldReturnsTheWorksOwnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		locker := lock.Locker{Issuer: &w, TTL: ttl, DangerouslyWithoutClaim: true}
		for _, want := range []error{nil, errWork} {
			err := locker.Hold(t.Context(), account, func(ctx context.Context) error {
				require.Equal(t, account, fromContext(t, ctx, account).Resource)
				require.ErrorIs(t, noWait(&locker).Hold(t.Context(), account, nil), token.ErrHeld)
				return want
			})
			require.True(t, err == want, "%v is joined to something", err)
			free(t, &w)
		}
	})
}

func TestHoldSaysWhatElseHappened(t *testing.T) {
	for name, world := range map[string]struct {
		renew, release fault
		work           error
		is, isNot      []error
	}{
		"not released":                            {works, fails, nil, []error{lock.ErrNotReleased, errCut}, []error{token.ErrLost}},
		"failed and not released":                 {works, fails, errWork, []error{errWork, lock.ErrNotReleased}, []error{token.ErrLost}},
		"lost":                                    {fails, works, nil, []error{token.ErrLost, errCut}, []error{lock.ErrNotReleased}},
		"lost and failed":                         {fails, works, errWork, []error{errWork, token.ErrLost}, []error{lock.ErrNotReleased}},
		"lost and not released":                   {hangs, fails, errWork, []error{errWork, token.ErrLost, lock.ErrNotReleased}, nil},
		"released without an answer":              {works, hangs, nil, []error{lock.ErrNotReleased, context.DeadlineExceeded}, []error{token.ErrLost}},
		"released, and the reply to that is lost": {works, dropsReplies, nil, []error{lock.ErrNotReleased}, []error{token.ErrLost}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var w wire
				w.renew.set(world.renew)
				w.release.set(world.release)
				err := (&lock.Locker{Issuer: &w, TTL: ttl, DangerouslyWithoutClaim: true}).Hold(t.Context(), account, func(context.Context) error {
					time.Sleep(ttl - ttl/20)
					return world.work
				})
				for _, target := range world.is {
					require.ErrorIs(t, err, target)
				}
				for _, target := range world.isNot {
					require.NotErrorIs(t, err, target)
				}
			})
		})
	}
}

func TestALossIsReturnedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		w.renew.set(fails)
		err := (&lock.Locker{Issuer: &w, TTL: ttl, DangerouslyWithoutClaim: true}).Hold(t.Context(), account, func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(ttl) // nothing is left to release
			return context.Cause(ctx)
		})
		require.ErrorIs(t, err, token.ErrLost)
		require.Equal(t, 1, strings.Count(err.Error(), "lost"), err)
	})
}

func TestWorkThatIgnoresItsContextGetsErrLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		ctx, cancel := context.WithCancel(t.Context())
		err := (&lock.Locker{Issuer: &w, TTL: ttl, DangerouslyWithoutClaim: true}).Hold(ctx, account, func(context.Context) error {
			cancel() // this ends the renewals too
			time.Sleep(ttl)
			return (&lock.Locker{Issuer: &w, DangerouslyWithoutClaim: true}).Hold(t.Context(), account, func(context.Context) error { return nil })
		})
		require.ErrorIs(t, err, token.ErrLost)
		require.ErrorIs(t, err, lock.ErrNotReleased)
	})
}

func TestAPanicReleasesAndGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		require.PanicsWithValue(t, "work", func() {
			_ = (&lock.Locker{Issuer: &w, DangerouslyWithoutClaim: true}).Hold(t.Context(), account, func(context.Context) error { panic("work") })
		})
		free(t, &w)
	})
}

func TestGoexitReleases(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = (&lock.Locker{Issuer: &w, DangerouslyWithoutClaim: true}).Hold(t.Context(), account, func(context.Context) error {
				runtime.Goexit()
				return nil
			})
		}()
		<-done
		free(t, &w)
	})
}

func nothing(context.Context) error { return nil }

func TestHoldAtLeastKeepsTheResourceAfterAShortJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		start := time.Now()
		locker := lock.Locker{Issuer: &w, TTL: ttl, HoldAtLeast: time.Minute, DangerouslyWithoutClaim: true}
		require.NoError(t, locker.Hold(t.Context(), account, nothing))
		require.Less(t, time.Since(start), ttl, "the caller does not wait for it")
		time.Sleep(time.Minute - time.Millisecond)
		require.ErrorIs(t, noWait(&locker).Hold(t.Context(), account, nothing), token.ErrHeld)
		time.Sleep(2 * time.Millisecond)
		require.NoError(t, noWait(&locker).Hold(t.Context(), account, nothing))

		// The twin's job is run again by the machine whose clock is behind.
		locker.HoldAtLeast = 0
		time.Sleep(time.Minute)
		require.NoError(t, noWait(&locker).Hold(t.Context(), account, nothing))
		require.NoError(t, noWait(&locker).Hold(t.Context(), account, nothing))
	})
}

func TestHoldAtLeastIsOverAfterALongJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		locker := lock.Locker{Issuer: &w, TTL: ttl, HoldAtLeast: time.Minute, DangerouslyWithoutClaim: true}
		require.NoError(t, locker.Hold(t.Context(), account, func(context.Context) error {
			time.Sleep(time.Minute + 1)
			return nil
		}))
		free(t, &w)
	})
}

func TestHoldAtLeastDoesNotCountIfNothingRan(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		locker := lock.Locker{Issuer: &w, TTL: ttl, HoldAtLeast: time.Minute,
			Claim: func(context.Context, token.Token) error { return errCut }}
		require.ErrorIs(t, locker.Hold(t.Context(), account, nothing), errCut)
		free(t, &w)
	})
}

func TestHoldAtLeastThatExceedsHoldAtMostIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		locker := lock.Locker{Issuer: &w, HoldAtLeast: time.Minute, HoldAtMost: time.Second, DangerouslyWithoutClaim: true}
		for _, err := range everyWay(t, &locker, account) {
			require.EqualError(t, err, "lock: Locker's HoldAtLeast 1m0s is more than its HoldAtMost 1s")
		}
	})
}

// laggard delays its first renewal, so that later requests arrive before it.
type laggard struct {
	token.Issuer
	sent atomic.Int64
}

func (i *laggard) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	if i.sent.Add(1) == 1 {
		time.Sleep(ttl / 10)
	}
	return i.Issuer.Renew(ctx, tok, ttl)
}

func TestHoldAtLeastOutlastsARenewalUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		iss := laggard{Issuer: new(wire)}
		start := time.Now()
		locker := lock.Locker{Issuer: &iss, TTL: ttl, HoldAtLeast: time.Minute, DangerouslyWithoutClaim: true}
		require.NoError(t, locker.Hold(t.Context(), account, func(context.Context) error {
			for iss.sent.Load() == 0 {
				time.Sleep(time.Millisecond)
			}
			return nil
		}))
		time.Sleep(time.Until(start.Add(time.Minute - time.Millisecond)))
		require.ErrorIs(t, noWait(&locker).Hold(t.Context(), account, nothing), token.ErrHeld)
	})
}
