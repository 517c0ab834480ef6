package lock_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/test/hooktest"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

// underOuterToken runs fn inside the Hold of a simulation, and returns the error of that
// Hold.
func underOuterToken(t *testing.T, h *hooktest.Record, w *wire, fn func(ctx context.Context, locker *lock.Locker, tok token.Token)) error {
	t.Helper()
	locker := &lock.Locker{Issuer: w, TTL: ttl, DangerouslyWithoutClaim: true}
	return locker.Hold(h.Listen(t.Context()), account, func(ctx context.Context) error {
		tok := fromContext(t, ctx, account)
		fn(failpoint.WithOuterToken(ctx, account, tok), &lock.Locker{Issuer: w, TTL: ttl, DangerouslyWithoutClaim: true}, tok)
		return nil
	})
}

// Code that holds first has no token outside of its Hold, as in production.
func TestAnOuterTokenIsVisibleInsideHoldOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		var h hooktest.Record
		require.NoError(t, underOuterToken(t, &h, &w, func(ctx context.Context, locker *lock.Locker, tok token.Token) {
			require.NoError(t, locker.Hold(ctx, account, func(inner context.Context) error {
				require.Equal(t, tok, fromContext(t, inner, account))
				require.Equal(t, []token.Token{tok}, token.All(inner))
				_, err := token.FromContext(ctx, account)
				require.ErrorIs(t, err, token.ErrMissing, "the outer context")
				require.Empty(t, token.All(ctx))
				return locker.Hold(inner, account, func(nested context.Context) error {
					require.Equal(t, tok, fromContext(t, nested, account))
					return nil
				})
			}))
			_, err := token.FromContext(ctx, account)
			require.ErrorIs(t, err, token.ErrMissing, "behind the Hold")
			require.EqualValues(t, 1, w.acquire.calls.Load())
			require.Empty(t, h.Notes)
		}))
	})
}

func TestASecondHoldUnderAnOuterTokenAcquiresAnew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		var h hooktest.Record
		err := underOuterToken(t, &h, &w, func(ctx context.Context, locker *lock.Locker, tok token.Token) {
			require.NoError(t, locker.Hold(ctx, account, func(context.Context) error { return nil }))
			require.EqualValues(t, 1, w.acquire.calls.Load())
			require.NoError(t, w.Release(ctx, tok), "what the simulation does when it gets the note")
			require.NoError(t, locker.Hold(ctx, account, func(inner context.Context) error {
				require.Equal(t, []any{failpoint.Reacquired{Resource: account}}, h.Notes)
				require.Greater(t, fromContext(t, inner, account).Number, tok.Number)
				return nil
			}))
			require.EqualValues(t, 2, w.acquire.calls.Load())
		})
		require.ErrorIs(t, err, token.ErrLost, "it was given back")
	})
}

// Code that uses the token first keeps it.
func TestAnOuterTokenThatIsUsedFirstStays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		var h hooktest.Record
		require.NoError(t, underOuterToken(t, &h, &w, func(ctx context.Context, locker *lock.Locker, tok token.Token) {
			require.Equal(t, tok, fromContext(t, ctx, account))
			for range 2 {
				require.NoError(t, locker.Hold(ctx, account, func(inner context.Context) error {
					require.Equal(t, tok, fromContext(t, inner, account))
					require.Equal(t, tok, fromContext(t, ctx, account))
					return nil
				}))
				require.Equal(t, tok, fromContext(t, ctx, account))
			}
			require.EqualValues(t, 1, w.acquire.calls.Load())
			used := failpoint.UsedFirst{Resource: account}
			require.Equal(t, []any{used, used}, h.Notes, "in production a Hold would come first")
		}))
	})
}

func TestAClaimIsMarkedInItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		var h hooktest.Record
		claims := 0
		locker := lock.Locker{Issuer: &w, TTL: ttl, Claim: func(ctx context.Context, _ token.Token) error {
			claims++
			require.True(t, failpoint.IsClaim(ctx))
			return nil
		}}
		require.NoError(t, locker.Hold(h.Listen(t.Context()), account, func(ctx context.Context) error {
			require.False(t, failpoint.IsClaim(ctx))
			return nil
		}))
		require.Equal(t, 1, claims)
	})
}
