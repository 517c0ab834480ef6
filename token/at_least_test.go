package token_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
)

func nothing(context.Context) error { return nil }

func TestAtLeastKeepsTheResourceAfterAShortJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		start := time.Now()
		locker := token.Locker{Issuer: &w, TTL: ttl, AtLeast: time.Minute}
		require.NoError(t, locker.Hold(t.Context(), account, nothing))
		require.Less(t, time.Since(start), ttl, "the caller does not wait for it")
		time.Sleep(time.Minute - time.Millisecond)
		require.ErrorIs(t, locker.TryHold(t.Context(), account, nothing), token.ErrHeld)
		time.Sleep(2 * time.Millisecond)
		require.NoError(t, locker.TryHold(t.Context(), account, nothing))

		// The twin is run again by whoever's clock is behind.
		locker.AtLeast = 0
		time.Sleep(time.Minute)
		require.NoError(t, locker.TryHold(t.Context(), account, nothing))
		require.NoError(t, locker.TryHold(t.Context(), account, nothing))
	})
}

func TestAtLeastIsOverAfterALongJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		locker := token.Locker{Issuer: &w, TTL: ttl, AtLeast: time.Minute}
		require.NoError(t, locker.Hold(t.Context(), account, func(context.Context) error {
			time.Sleep(time.Minute + 1)
			return nil
		}))
		free(t, &w)
	})
}

func TestAtLeastDoesNotCountWhereNothingRan(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		locker := token.Locker{Issuer: &w, TTL: ttl, AtLeast: time.Minute,
			Claim: func(context.Context, token.Token) error { return errCut }}
		require.ErrorIs(t, locker.Hold(t.Context(), account, nothing), errCut)
		free(t, &w)
	})
}

func TestAtLeastThatExceedsAtMostIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		locker := token.Locker{Issuer: &w, AtLeast: time.Minute, AtMost: time.Second}
		for _, err := range everyWay(t, &locker, account) {
			require.EqualError(t, err, "token: Locker's AtLeast 1m0s is more than its AtMost 1s")
		}
	})
}

// laggard's first renewal takes its time to arrive; what is sent after it
// would overtake it.
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

func TestAtLeastOutlastsARenewalUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		iss := laggard{Issuer: new(wire)}
		start := time.Now()
		locker := token.Locker{Issuer: &iss, TTL: ttl, AtLeast: time.Minute}
		require.NoError(t, locker.Hold(t.Context(), account, func(context.Context) error {
			for iss.sent.Load() == 0 {
				time.Sleep(time.Millisecond)
			}
			return nil
		}))
		time.Sleep(time.Until(start.Add(time.Minute - time.Millisecond)))
		require.ErrorIs(t, locker.TryHold(t.Context(), account, nothing), token.ErrHeld)
	})
}
