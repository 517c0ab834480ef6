package token_test

import (
	"context"
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
