package token_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

func TestAReentryThroughAnotherLockerIsClaimed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		var marks guard.Memory
		claims := 0
		plain := token.Locker{Issuer: &w, TTL: ttl}
		claiming := token.Locker{Issuer: &w, Claim: func(ctx context.Context, tok token.Token) error {
			claims++
			require.Equal(t, tok, fromContext(t, ctx, account))
			return marks.Admit(ctx, tok)
		}}
		copied := claiming
		require.NoError(t, plain.Hold(t.Context(), account, func(ctx context.Context) error {
			tok := fromContext(t, ctx, account)
			// The twin reads under the outer lease: an older writer may still come.
			require.Zero(t, marks.Mark(account).Number)
			older := token.Token{Resource: account, Number: tok.Number - 1, Holder: "older"}
			require.Zero(t, claims)

			for range 3 {
				require.NoError(t, claiming.Hold(ctx, account, func(ctx context.Context) error {
					require.Equal(t, 1, claims, "before the work, and once")
					require.ErrorIs(t, marks.Admit(ctx, older), guard.ErrStale)
					return plain.Hold(ctx, account, func(ctx context.Context) error {
						return claiming.TryHold(ctx, account, func(context.Context) error { return nil })
					})
				}))
			}
			require.NoError(t, copied.Hold(ctx, account, func(context.Context) error { return nil }))
			require.Equal(t, 2, claims, "a copy is a Locker of its own")
			return ctx.Err()
		}))
		require.EqualValues(t, 1, w.acquire.calls.Load())
	})
}

func TestAFailedClaimOfAReentryLeavesTheOuterLeaseAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		broken := true
		outer := token.Locker{Issuer: &w, TTL: ttl}
		inner := token.Locker{Issuer: &w, Claim: func(context.Context, token.Token) error {
			if broken {
				return errClaim
			}
			return nil
		}}
		require.NoError(t, outer.Hold(t.Context(), account, func(ctx context.Context) error {
			err := inner.Hold(ctx, account, func(context.Context) error {
				t.Error("the work ran")
				return nil
			})
			require.ErrorIs(t, err, errClaim)
			require.ErrorContains(t, err, "token: claim of account/42#")
			time.Sleep(10 * ttl)
			require.NoError(t, ctx.Err())
			require.Zero(t, w.release.calls.Load())

			broken = false
			return inner.Hold(ctx, account, func(context.Context) error { return nil })
		}), "what failed is claimed again")
	})
}

func TestALossWhileAReentryIsClaimedHoldsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		outer := token.Locker{Issuer: &w, TTL: ttl}
		inner := token.Locker{Issuer: &w, Claim: func(ctx context.Context, _ token.Token) error {
			w.renew.set(fails)
			<-ctx.Done()
			return nil
		}}
		require.ErrorIs(t, outer.Hold(t.Context(), account, func(ctx context.Context) error {
			return inner.Hold(context.WithoutCancel(ctx), account, func(context.Context) error {
				t.Error("the work ran")
				return nil
			})
		}), token.ErrLost)
	})
}

func TestAClaimMayHoldWhatItClaims(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		var locker token.Locker
		claims := 0
		locker = token.Locker{Issuer: &w, Claim: func(ctx context.Context, _ token.Token) error {
			claims++
			require.LessOrEqual(t, claims, 1, "it calls itself")
			return locker.Hold(ctx, account, func(context.Context) error { return nil })
		}}
		work := func(context.Context) error { return nil }
		require.NoError(t, locker.Hold(t.Context(), account, work))
		claims = 0
		require.NoError(t, (&token.Locker{Issuer: &w}).Hold(t.Context(), account, func(ctx context.Context) error {
			return locker.Hold(ctx, account, work)
		}))
		require.Equal(t, 1, claims)
	})
}
