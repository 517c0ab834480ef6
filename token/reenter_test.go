package token_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// hazard L3
func TestReentryKeepsTheToken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		var marks guard.Memory
		locker := token.Locker{Issuer: &w, TTL: ttl}
		again := token.Locker{Issuer: &w, Name: "another locker of the same issuer"}
		require.NoError(t, locker.Hold(t.Context(), account, func(outer context.Context) error {
			tok := fromContext(t, outer, account)
			for _, hold := range []func(context.Context, string, func(context.Context) error) error{
				locker.Hold, locker.TryHold, again.Hold, again.TryHold,
			} {
				require.NoError(t, hold(outer, account, func(inner context.Context) error {
					require.Equal(t, tok, fromContext(t, inner, account))
					return marks.Admit(inner, tok)
				}))
				require.NoError(t, outer.Err(), "what is inside releases nothing")
			}
			require.EqualValues(t, 1, w.acquire.calls.Load())
			require.Zero(t, w.release.calls.Load())
			require.NoError(t, marks.Admit(outer, tok))

			// The twin acquires for the inner frame: the outer one is stale.
			inner, err := w.Acquire(outer, account, tok.Holder, ttl)
			require.NoError(t, err)
			require.NoError(t, marks.Admit(outer, inner.Token))
			require.ErrorIs(t, marks.Admit(outer, tok), guard.ErrStale)
			return nil
		}))
	})
}

func TestAHandleOfAReentryLeavesTheReleaseToTheOutermost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		locker := token.Locker{Issuer: &w}
		outer, err := locker.Acquire(t.Context(), account)
		require.NoError(t, err)
		ctx := context.WithValue(outer.Context(), ctxKey{}, "mine")
		inner, err := locker.Acquire(ctx, account)
		require.NoError(t, err)
		require.Equal(t, ctx, inner.Context())
		require.Equal(t, outer.Token(), inner.Token())
		require.NoError(t, inner.Release(ctx))
		require.NoError(t, outer.Context().Err())
		require.Zero(t, w.release.calls.Load())
		require.NoError(t, outer.Release(ctx))
	})
}

type ctxKey struct{}

func TestAReleasedLeaseIsAcquiredAfresh(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		locker := token.Locker{Issuer: &w}
		held, err := locker.Acquire(t.Context(), account)
		require.NoError(t, err)
		require.NoError(t, held.Release(t.Context()))
		detached := context.WithoutCancel(held.Context())
		require.NoError(t, locker.Hold(detached, account, func(ctx context.Context) error {
			require.Greater(t, fromContext(t, ctx, account).Number, held.Token().Number)
			return nil
		}))
	})
}

func TestALostLeaseIsNotEnteredAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		locker := token.Locker{Issuer: &w, TTL: ttl}
		held, err := locker.Acquire(t.Context(), account)
		require.NoError(t, err)
		w.renew.set(fails)
		<-held.Context().Done()
		detached := context.WithoutCancel(held.Context())
		require.ErrorIs(t, locker.Hold(detached, account, nil), token.ErrLost)
		require.EqualValues(t, 1, w.acquire.calls.Load())
	})
}

func TestALossInsideOfAReentryIsSaidThereToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		locker := token.Locker{Issuer: &w, TTL: ttl}
		err := locker.Hold(t.Context(), account, func(ctx context.Context) error {
			w.renew.set(fails)
			require.ErrorIs(t, locker.Hold(ctx, account, func(context.Context) error {
				time.Sleep(ttl)
				return nil
			}), token.ErrLost)
			return nil
		})
		require.ErrorIs(t, err, token.ErrLost)
	})
}
