package token_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
)

// free fails t unless nobody has the account.
func free(t *testing.T, w *wire) {
	t.Helper()
	tok, err := w.far.Acquire(t.Context(), account, "onlooker", ttl)
	require.NoError(t, err)
	require.NoError(t, w.far.Release(t.Context(), tok.Token))
}

func TestAGrantWhoseReplyIsLostIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		w.acquire.set(mute)
		start := time.Now()
		_, err := (&token.Locker{Issuer: &w}).Acquire(t.Context(), account)
		require.ErrorIs(t, err, errCut)
		require.ErrorContains(t, err, "token: acquire account/42: ")
		require.EqualValues(t, 1, w.release.calls.Load())
		require.Zero(t, time.Since(start))
		free(t, &w)
	})
}

func TestAGrantThatTheCallerDoesNotAwaitIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		w.acquire.set(dumb)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := (&token.Locker{Issuer: &w, TTL: time.Hour}).Acquire(ctx, account)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualValues(t, 1, w.release.calls.Load())
		free(t, &w)
	})
}

func TestNobodyWaitsLongToAbandon(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		w.acquire.set(fails)
		w.release.set(hangs)
		start := time.Now()
		_, err := (&token.Locker{Issuer: &w, TTL: time.Hour}).Acquire(t.Context(), account)
		require.ErrorIs(t, err, errCut)
		require.LessOrEqual(t, time.Since(start), 2*time.Second)
	})
}

func TestAGrantThatIsHeardOfTooLateIsNone(t *testing.T) {
	for name, late := range map[string]time.Duration{
		"after its end":     2 * ttl,
		"within its margin": ttl - ttl/20,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := wire{back: late}
				locker := token.Locker{Issuer: &w, TTL: ttl, Claim: func(context.Context, token.Token) error {
					t.Error("a token that is over was claimed")
					return nil
				}}
				err := locker.Hold(t.Context(), account, func(context.Context) error {
					t.Error("the work ran")
					return nil
				})
				require.ErrorIs(t, err, token.ErrLost)
				require.NotErrorIs(t, err, token.ErrUnreleased)
				require.EqualValues(t, 1, w.release.calls.Load())
				free(t, &w)
			})
		})
	}
}

func TestTheGrantOfACallerThatHasGoneIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := wire{back: ttl / 2}
		ctx, cancel := context.WithTimeout(t.Context(), ttl/4)
		defer cancel()
		_, err := (&token.Locker{Issuer: &w, TTL: ttl}).Acquire(ctx, account)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		free(t, &w)
	})
}
