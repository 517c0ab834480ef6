package token_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
)

// hazard L10
func TestATokenFromElsewhereIsNoReentry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		owner := taken(t, &w)
		asked := w.acquire.calls.Load()
		forged := token.NewContext(t.Context(), token.Token{Resource: account, Number: token.MaxNumber, Holder: "anybody"})
		locker := token.Locker{Issuer: &w, Wait: time.Minute}
		require.ErrorIs(t, locker.Hold(forged, account, nil), token.ErrForeign)
		require.ErrorIs(t, locker.TryHold(forged, account, nil), token.ErrForeign)
		require.ErrorIs(t, locker.HoldAll(forged, []string{account}, nil), token.ErrForeign)
		require.Equal(t, asked, w.acquire.calls.Load())

		// The twin takes the token for its own: it works beside the owner.
		naive := func(ctx context.Context, fn func() error) error {
			if _, err := token.FromContext(ctx, account); err == nil {
				return fn()
			}
			return locker.Hold(ctx, account, func(context.Context) error { return fn() })
		}
		ran := false
		require.NoError(t, naive(forged, func() error {
			ran = owner.Context().Err() == nil
			return nil
		}))
		require.True(t, ran)
		require.NoError(t, owner.Release(t.Context()))
	})
}

func TestALeaseOfAnotherIssuerIsForeign(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var one, other wire
		require.NoError(t, (&token.Locker{Issuer: &one}).Hold(t.Context(), account, func(ctx context.Context) error {
			require.ErrorIs(t, (&token.Locker{Issuer: &other}).Hold(ctx, account, nil), token.ErrForeign)
			return nil
		}))
		require.Zero(t, other.acquire.calls.Load())
	})
}
