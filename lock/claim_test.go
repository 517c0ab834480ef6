package lock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/marks"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

var errClaim = errors.New("the store is down")

func TestEveryNewTokenIsClaimedOnceBeforeTheWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		var marks guard.Memory
		claims := 0
		locker := lock.Locker{Issuer: &w, Claim: func(ctx context.Context, tok token.Token) error {
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
		locker := lock.Locker{Issuer: &w, Claim: func(context.Context, token.Token) error { return errClaim }}
		for _, err := range everyWay(t, &locker, account) {
			require.ErrorIs(t, err, errClaim)
			require.ErrorContains(t, err, "lock: claim of account/42#")
			free(t, &w)
		}
		w.release.set(fails)
		_, err := locker.Acquire(t.Context(), account)
		require.ErrorIs(t, err, errClaim)
		require.ErrorIs(t, err, lock.ErrNotReleased)
	})
}

func TestTheLeaseIsRenewedWhileItsClaimWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		locker := lock.Locker{Issuer: &w, TTL: ttl, Claim: func(ctx context.Context, _ token.Token) error {
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
				locker := lock.Locker{Issuer: &w, TTL: ttl, Claim: func(ctx context.Context, _ token.Token) error {
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
		locker := lock.Locker{Issuer: &w, Claim: func(context.Context, token.Token) error { panic("claim") }}
		require.PanicsWithValue(t, "claim", func() { _, _ = locker.Acquire(t.Context(), account) })
		free(t, &w)
	})
}

// pair is an issuer that also keeps the marks, and raises them when it grants.
type pair struct {
	token.Issuer
	raises marks.ID
}

func (p *pair) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	grant, err := p.Issuer.Acquire(ctx, resource, holder, ttl)
	grant.Claimed = p.raises
	return grant, err
}

// hazard G32
func TestAClaimSeesWhichMarksTheGrantRaised(t *testing.T) {
	bubble(t, func(t *testing.T) {
		own, others := marks.ID{DB: new(int), Schema: "own"}, marks.ID{DB: new(int), Schema: "own"}
		for _, raised := range []marks.ID{own, others, {}} {
			claims := 0
			claim := func(ctx context.Context, tok token.Token) error {
				claims++
				require.Equal(t, raised == own, marks.Raised(ctx, tok, own))
				return nil
			}
			locker := lock.Locker{Issuer: &pair{new(memtoken.Issuer), raised}, Claim: claim}
			other := lock.Locker{Issuer: locker.Issuer, Claim: claim}
			require.NoError(t, locker.Hold(t.Context(), account, func(ctx context.Context) error {
				require.Equal(t, 1, claims, "whatever the grant has raised")
				require.NoError(t, other.Hold(ctx, account, nothing))
				require.Equal(t, 2, claims, "another locker may have another guard")
				require.False(t, marks.Raised(ctx, fromContext(t, ctx, account), own), "the work's own Admit compares again")
				return nil
			}))
		}
	})
}

func TestAReentryThroughAnotherLockerIsClaimed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		var marks guard.Memory
		claims := 0
		plain := lock.Locker{Issuer: &w, TTL: ttl, DangerouslyWithoutClaim: true}
		claiming := lock.Locker{Issuer: &w, Claim: func(ctx context.Context, tok token.Token) error {
			claims++
			require.Equal(t, tok, fromContext(t, ctx, account))
			return marks.Admit(ctx, tok)
		}}
		copied := claiming
		require.NoError(t, plain.Hold(t.Context(), account, func(ctx context.Context) error {
			tok := fromContext(t, ctx, account)
			// The twin reads under the outer lease: an older holder's write may still be
			// applied.
			require.Zero(t, marks.Mark(account).Number)
			older := token.Token{Resource: account, Number: tok.Number - 1, Holder: "older"}
			require.Zero(t, claims)

			for range 3 {
				require.NoError(t, claiming.Hold(ctx, account, func(ctx context.Context) error {
					require.Equal(t, 1, claims, "before the work, and once")
					require.ErrorIs(t, marks.Admit(ctx, older), guard.ErrStale)
					return plain.Hold(ctx, account, func(ctx context.Context) error {
						return claiming.Hold(ctx, account, func(context.Context) error { return nil })
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
		outer := lock.Locker{Issuer: &w, TTL: ttl, DangerouslyWithoutClaim: true}
		inner := lock.Locker{Issuer: &w, Claim: func(context.Context, token.Token) error {
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
			require.ErrorContains(t, err, "lock: claim of account/42#")
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
		outer := lock.Locker{Issuer: &w, TTL: ttl, DangerouslyWithoutClaim: true}
		inner := lock.Locker{Issuer: &w, Claim: func(ctx context.Context, _ token.Token) error {
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
		var locker lock.Locker
		claims := 0
		locker = lock.Locker{Issuer: &w, Claim: func(ctx context.Context, _ token.Token) error {
			claims++
			require.LessOrEqual(t, claims, 1, "it calls itself")
			return locker.Hold(ctx, account, func(context.Context) error { return nil })
		}}
		work := func(context.Context) error { return nil }
		require.NoError(t, locker.Hold(t.Context(), account, work))
		claims = 0
		require.NoError(t, (&lock.Locker{Issuer: &w, DangerouslyWithoutClaim: true}).Hold(t.Context(), account, func(ctx context.Context) error {
			return locker.Hold(ctx, account, work)
		}))
		require.Equal(t, 1, claims)
	})
}
