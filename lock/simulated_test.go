package lock_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/test/hooktest"
	"github.com/fencepost/fencepost/internal/tokenctx"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

// underOffer runs fn in a simulation of code that takes the lock itself, and returns the
// error of the simulation's Hold. reclaims counts the releases of the offered lease.
func underOffer(t *testing.T, w *wire, reclaims *int, fn func(ctx context.Context, locker *lock.Locker, tok token.Token)) error {
	t.Helper()
	locker := &lock.Locker{Issuer: w, TTL: ttl, DangerouslyWithoutClaim: true}
	return locker.Hold(t.Context(), account, func(ctx context.Context) error {
		tok := fromContext(t, ctx, account)
		ctx, _ = tokenctx.NewOffer[token.Token](ctx, account, func(ctx context.Context) {
			*reclaims++
			require.NoError(t, w.Release(ctx, tok))
		})
		fn(ctx, &lock.Locker{Issuer: w, TTL: ttl, DangerouslyWithoutClaim: true}, tok)
		return nil
	})
}

// requireNoToken requires that ctx carries no token of the account.
func requireNoToken(t *testing.T, ctx context.Context) {
	t.Helper()
	_, err := token.FromContext(ctx, account)
	require.ErrorIs(t, err, token.ErrMissing)
	require.Empty(t, token.All(ctx))
}

// As in production, there is no token outside of the code's own Hold.
func TestAnOfferedLeaseIsVisibleInsideHoldOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		var reclaims int
		require.NoError(t, underOffer(t, &w, &reclaims, func(ctx context.Context, locker *lock.Locker, tok token.Token) {
			requireNoToken(t, ctx)
			require.NoError(t, locker.Hold(ctx, account, func(inner context.Context) error {
				require.Equal(t, tok, fromContext(t, inner, account))
				require.Equal(t, []token.Token{tok}, token.All(inner))
				requireNoToken(t, ctx)
				require.NoError(t, locker.Hold(ctx, account, func(parallel context.Context) error {
					require.Equal(t, tok, fromContext(t, parallel, account))
					return nil
				}), "in production it waits for the first; here both have the lease")
				return locker.Hold(inner, account, func(nested context.Context) error {
					require.Equal(t, tok, fromContext(t, nested, account))
					return nil
				})
			}))
			requireNoToken(t, ctx)
			own := token.NewContext(ctx, token.Token{Resource: account, Number: 99, Holder: "own"})
			require.EqualValues(t, 99, fromContext(t, own, account).Number, "a token of the program's own")
			require.ErrorIs(t, locker.Hold(own, account, nil), lock.ErrNotLeased)
			require.EqualValues(t, 1, w.acquire.calls.Load())
			require.Zero(t, reclaims)
		}))
	})
}

func TestASecondHoldUnderAnOfferAcquiresAnew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		var reclaims int
		err := underOffer(t, &w, &reclaims, func(ctx context.Context, locker *lock.Locker, tok token.Token) {
			require.NoError(t, locker.Hold(ctx, account, func(context.Context) error { return nil }))
			require.EqualValues(t, 1, w.acquire.calls.Load())
			for n := range 2 {
				require.NoError(t, locker.Hold(ctx, account, func(inner context.Context) error {
					require.Equal(t, 1, reclaims, "the lease is released once")
					require.Greater(t, fromContext(t, inner, account).Number, tok.Number)
					return nil
				}))
				requireNoToken(t, ctx)
				require.EqualValues(t, 2+n, w.acquire.calls.Load())
			}
		})
		require.ErrorIs(t, err, token.ErrLost, "it was given back")
	})
}

// A nested Hold is noted, for a simulation that does not expect one.
func TestANestedHoldIsNoted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var h hooktest.Record
		locker := &lock.Locker{Issuer: new(wire), TTL: ttl, DangerouslyWithoutClaim: true}
		require.NoError(t, locker.Hold(h.Listen(t.Context()), account, func(ctx context.Context) error {
			require.Empty(t, h.Notes)
			return locker.Hold(ctx, account, func(context.Context) error { return nil })
		}))
		require.Equal(t, []any{failpoint.Reentered{Resource: account}}, h.Notes)
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
