package token_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
)

// taken has somebody else hold the account, who renews for ever.
func taken(t *testing.T, w *wire) *token.Lease {
	t.Helper()
	held, err := (&token.Locker{Issuer: w, Name: "somebody", TTL: ttl}).Acquire(t.Context(), account)
	require.NoError(t, err)
	return held
}

func TestAcquireWaitsForTheRelease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		first := taken(t, &w)
		var released time.Time
		time.AfterFunc(10*time.Minute, func() {
			released = time.Now()
			assert.NoError(t, first.Release(t.Context()))
		})
		next, err := (&token.Locker{Issuer: &w}).Acquire(t.Context(), account)
		require.NoError(t, err)
		require.Less(t, time.Since(released), 200*time.Millisecond)
		require.Greater(t, next.Token().Number, first.Token().Number)
		require.NoError(t, next.Release(t.Context()))
	})
}

func TestAcquireGetsWhatExpires(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		grant, err := w.Acquire(t.Context(), account, "crashed", time.Minute)
		require.NoError(t, err)
		next, err := (&token.Locker{Issuer: &w}).Acquire(t.Context(), account)
		require.NoError(t, err)
		require.False(t, time.Now().Before(grant.Until))
		require.Less(t, time.Since(grant.Until), 200*time.Millisecond)
		require.NoError(t, next.Release(t.Context()))
	})
}

func TestTryingDoesNotWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		first := taken(t, &w)
		start, locker := time.Now(), token.Locker{Issuer: &w, Wait: time.Minute}
		_, err := locker.TryAcquire(t.Context(), account)
		require.ErrorIs(t, err, token.ErrHeld)
		var held *token.HeldError
		require.True(t, errors.As(err, &held))
		require.Equal(t, &token.HeldError{Resource: account, Holder: first.Token().Holder, Remaining: ttl}, held)
		require.ErrorIs(t, locker.TryHold(t.Context(), account, nil), token.ErrHeld)
		require.NotErrorIs(t, err, token.ErrWaitEnded)
		require.Zero(t, time.Since(start))
		require.EqualValues(t, 3, w.acquire.calls.Load())
		require.NoError(t, first.Release(t.Context()))
		require.NoError(t, locker.TryHold(t.Context(), account, func(context.Context) error { return nil }))
	})
}

func TestWaitBoundsTheWaiting(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		first := taken(t, &w)
		start := time.Now()
		err := (&token.Locker{Issuer: &w, Wait: time.Minute}).Hold(t.Context(), account, nil)
		require.ErrorIs(t, err, token.ErrWaitEnded)
		require.ErrorIs(t, err, token.ErrHeld)
		require.ErrorContains(t, err, first.Token().Holder)
		require.Equal(t, time.Minute, time.Since(start))
		require.NoError(t, first.Release(t.Context()))
	})
}

func TestWaitBoundsAnIssuerThatDoesNotAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		w.acquire.set(hangs)
		start := time.Now()
		_, err := (&token.Locker{Issuer: &w, Wait: time.Minute}).Acquire(t.Context(), account)
		require.ErrorIs(t, err, token.ErrWaitEnded)
		require.NotErrorIs(t, err, token.ErrHeld)
		require.Equal(t, time.Minute, time.Since(start))
	})
}

func TestTheContextEndsTheWaiting(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		first := taken(t, &w)
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(enough) })
		start := time.Now()
		_, err := (&token.Locker{Issuer: &w}).Acquire(ctx, account)
		require.ErrorIs(t, err, enough)
		require.ErrorIs(t, err, token.ErrHeld)
		require.NotErrorIs(t, err, token.ErrWaitEnded)
		require.Equal(t, time.Minute, time.Since(start))
		require.NoError(t, first.Release(t.Context()))
	})
}
