package token_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

var errClaim = errors.New("the store is down")

func TestEveryNewTokenIsClaimedOnceBeforeTheWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		var marks guard.Memory
		claims := 0
		locker := token.Locker{Issuer: &w, Claim: func(ctx context.Context, tok token.Token) error {
			claims++
			require.Equal(t, tok, fromContext(t, ctx, account))
			return marks.Admit(ctx, tok)
		}}
		for round := range 3 {
			require.NoError(t, locker.Hold(t.Context(), account, func(ctx context.Context) error {
				require.Equal(t, round+1, claims)
				require.Equal(t, fromContext(t, ctx, account).Number, marks.Mark(account).Number)
				time.Sleep(time.Minute)
				return locker.Hold(ctx, account, func(context.Context) error { return nil })
			}))
			require.Equal(t, round+1, claims, "neither renewing nor re-entry makes a new token")
		}
	})
}

func TestAFailedClaimGivesTheResourceBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		locker := token.Locker{Issuer: &w, Claim: func(context.Context, token.Token) error { return errClaim }}
		for _, err := range everyWay(t, &locker, account) {
			require.ErrorIs(t, err, errClaim)
			require.ErrorContains(t, err, "token: claim of account/42#")
			free(t, &w)
		}
		w.release.set(fails)
		_, err := locker.Acquire(t.Context(), account)
		require.ErrorIs(t, err, errClaim)
		require.ErrorIs(t, err, token.ErrUnreleased)
	})
}

func TestTheLeaseIsRenewedWhileItsClaimWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		locker := token.Locker{Issuer: &w, TTL: ttl, Claim: func(ctx context.Context, _ token.Token) error {
			time.Sleep(10 * ttl)
			return ctx.Err()
		}}
		held, err := locker.Acquire(t.Context(), account)
		require.NoError(t, err)
		require.GreaterOrEqual(t, w.renew.calls.Load(), int64(29))
		require.NoError(t, held.Release(t.Context()))
	})
}

func TestALeaseThatIsLostWhileItsClaimWaitsHoldsNothing(t *testing.T) {
	for name, claimed := range map[string]error{"the claim succeeds": nil, "the claim fails": errClaim} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var w wire
				w.renew.set(fails)
				locker := token.Locker{Issuer: &w, TTL: ttl, Claim: func(ctx context.Context, _ token.Token) error {
					<-ctx.Done()
					return claimed
				}}
				err := locker.Hold(t.Context(), account, func(context.Context) error {
					t.Error("the work ran")
					return nil
				})
				require.ErrorIs(t, err, token.ErrLost)
				if claimed != nil {
					require.ErrorIs(t, err, claimed)
				}
				free(t, &w)
			})
		})
	}
}

func TestAPanicInAClaimGivesTheResourceBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		locker := token.Locker{Issuer: &w, Claim: func(context.Context, token.Token) error { panic("claim") }}
		require.PanicsWithValue(t, "claim", func() { _, _ = locker.Acquire(t.Context(), account) })
		free(t, &w)
	})
}

// pair is an issuer that keeps the marks too, and raises them as it grants.
type pair struct {
	token.Issuer
	claims bool
}

func (p *pair) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	grant, err := p.Issuer.Acquire(ctx, resource, holder, ttl)
	grant.Claimed = p.claims
	return grant, err
}

func TestWhatWasClaimedWithTheGrantIsNotClaimedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, claimed := range []bool{true, false} {
			claims := 0
			claim := func(context.Context, token.Token) error { claims++; return nil }
			locker := token.Locker{Issuer: &pair{new(memtoken.Issuer), claimed}, Claim: claim}
			other := token.Locker{Issuer: locker.Issuer, Claim: claim}
			require.NoError(t, locker.Hold(t.Context(), account, func(ctx context.Context) error {
				require.Equal(t, !claimed, claims == 1)
				require.NoError(t, other.Hold(ctx, account, nothing))
				require.Equal(t, claimed, claims == 1, "another locker may have another guard")
				return nil
			}))
		}
	})
}
