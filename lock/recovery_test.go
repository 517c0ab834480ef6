package lock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// ahead returns a guard that has admitted a number above those that the issuer mints: the
// issuer has lost its memory, and its clock is behind.
func ahead(t *testing.T, by time.Duration, holder string) (*guard.Memory, int64) {
	t.Helper()
	number := time.Now().Add(by).UnixMicro() / 10
	fence := new(guard.Memory)
	require.NoError(t, fence.Admit(t.Context(), token.Token{Resource: account, Number: number, Holder: holder}))
	return fence, number
}

func TestARefusedClaimRecoversTheIssuer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fence, mark := ahead(t, time.Hour, "the one before")
		var iss memtoken.Issuer
		var recovered, acquired []int64
		locker := lock.Locker{Issuer: &iss, Claim: fence.Admit, Hooks: lock.Hooks{
			Acquired:  func(_ context.Context, tok token.Token, _ time.Duration) { acquired = append(acquired, tok.Number) },
			Recovered: func(_ context.Context, _ token.Token, number int64) { recovered = append(recovered, number) },
		}}
		ran := 0
		require.NoError(t, locker.Hold(t.Context(), account, func(ctx context.Context) error {
			ran++
			require.Equal(t, mark+1, fromContext(t, ctx, account).Number)
			return fence.Admit(ctx, fromContext(t, ctx, account))
		}))
		require.Equal(t, 1, ran)
		require.Equal(t, []int64{mark}, recovered)
		require.Len(t, acquired, 2)

		// The twin is not a Recoverer. It is refused until its clock has caught up.
		plain := struct{ token.Issuer }{new(memtoken.Issuer)}
		err := (&lock.Locker{Issuer: &plain, Claim: fence.Admit}).Hold(t.Context(), account, nil)
		require.ErrorIs(t, err, guard.ErrStale)
	})
}

func TestARefusalInTheWorkRecoversTheIssuerForTheNext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fence, mark := ahead(t, time.Hour, "the one before")
		locker := lock.Locker{Issuer: new(memtoken.Issuer), DangerouslyWithoutClaim: true}
		ran := 0
		write := func(ctx context.Context) error {
			ran++
			return fence.Admit(ctx, fromContext(t, ctx, account))
		}
		err := locker.Hold(t.Context(), account, write)
		require.ErrorIs(t, err, guard.ErrStale)
		require.NotErrorIs(t, err, token.ErrLost, "the lease was alive: the issuer forgot")
		require.Equal(t, 1, ran, "what ran once is not run again")
		require.NoError(t, locker.Hold(t.Context(), account, func(ctx context.Context) error {
			require.Greater(t, fromContext(t, ctx, account).Number, mark)
			return write(ctx)
		}))
	})
}

func TestARefusalByASuccessorIsALoss(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var iss memtoken.Issuer
		fence := new(guard.Memory)
		locker := lock.Locker{Issuer: &iss, Claim: fence.Admit}
		err := locker.Hold(t.Context(), account, func(ctx context.Context) error {
			tok := fromContext(t, ctx, account)
			require.NoError(t, iss.Release(ctx, tok)) // without the lease's knowledge
			require.NoError(t, locker.Hold(t.Context(), account, func(context.Context) error { return nil }))
			return fence.Admit(ctx, tok)
		})
		require.ErrorIs(t, err, guard.ErrStale)
		require.ErrorIs(t, err, token.ErrLost, "the issuer knows of a newer one")
	})
}

// One number was granted to two holders, for example by two masters.
// hazard R1
func TestACollisionAtTheClaimRecoversTheIssuer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var iss memtoken.Issuer
		fence, mark := ahead(t, 0, "the other")
		collided := 0
		locker := lock.Locker{Issuer: &iss, Claim: fence.Admit, Hooks: lock.Hooks{
			Collided: func(context.Context, token.Token, error) { collided++ },
		}}
		require.NoError(t, locker.Hold(t.Context(), account, func(ctx context.Context) error {
			require.Equal(t, mark+1, fromContext(t, ctx, account).Number)
			return nil
		}))
		require.Equal(t, 1, collided)
	})
}

func TestAMarkTooFarAheadIsNotRecovered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fence, _ := ahead(t, 25*time.Hour, "a forger")
		acquired := 0
		locker := lock.Locker{Issuer: new(memtoken.Issuer), Claim: fence.Admit, Hooks: lock.Hooks{
			Acquired: func(context.Context, token.Token, time.Duration) { acquired++ },
		}}
		err := locker.Hold(t.Context(), account, nil)
		require.ErrorIs(t, err, token.ErrTooFarAhead)
		require.ErrorIs(t, err, guard.ErrStale)
		require.Equal(t, 1, acquired, "it does not try again")
	})
}

// recorder records the calls of an issuer.
type recorder struct {
	memtoken.Issuer
	calls []string
}

func (e *recorder) Recover(ctx context.Context, resource string, number int64) error {
	e.calls = append(e.calls, "recover "+resource)
	return e.Issuer.Recover(ctx, resource, number)
}

func (e *recorder) Release(ctx context.Context, tok token.Token) error {
	e.calls = append(e.calls, "release "+tok.Resource)
	return e.Issuer.Release(ctx, tok)
}

// The release grants to the next waiter, whose number must be above the mark.
func TestRecoveryComesBeforeTheRelease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var e recorder
		fence, _ := ahead(t, time.Hour, "the one before")
		locker := lock.Locker{Issuer: &e, DangerouslyWithoutClaim: true}
		require.ErrorIs(t, locker.Hold(t.Context(), account, func(ctx context.Context) error {
			return fence.Admit(ctx, fromContext(t, ctx, account))
		}), guard.ErrStale)
		require.Equal(t, []string{"recover " + account, "release " + account}, e.calls)
	})
}

// The refusal of the inner token does not affect the outer lease.
func TestOnlyTheRefusedResourceIsRecovered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var e recorder
		fence, _ := ahead(t, time.Hour, "the one before")
		locker := lock.Locker{Issuer: &e, DangerouslyWithoutClaim: true}
		require.ErrorIs(t, locker.HoldAll(t.Context(), []string{"account/1", account}, func(ctx context.Context) error {
			return fence.Admit(ctx, fromContext(t, ctx, account))
		}), guard.ErrStale)
		require.Equal(t, []string{"recover " + account, "release " + account, "release account/1"}, e.calls)
	})
}

func TestEachRefusalOfAJoinedErrorIsRecovered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var e recorder
		locker := lock.Locker{Issuer: &e, DangerouslyWithoutClaim: true}
		both := []string{"account/1", account}
		refuse := func(tok token.Token, by int64) error {
			return &guard.StaleError{Token: tok, Mark: guard.Mark{Number: tok.Number + by, Holder: "the one before"}}
		}
		require.ErrorIs(t, locker.HoldAll(t.Context(), both, func(ctx context.Context) error {
			one, two := fromContext(t, ctx, both[0]), fromContext(t, ctx, both[1])
			hidden := &guard.StaleError{Token: one}
			return errors.Join(refuse(two, 5), fmt.Errorf("wrapped: %w", errors.Join(hidden, refuse(one, 7))))
		}), guard.ErrStale)
		require.Equal(t, []string{
			"recover " + account, "release " + account, "recover account/1", "release account/1",
		}, e.calls)
	})
}

// A loss that the issuer confirms does not count as a recovery.
func TestLossesDoNotUseUpTheRecoveries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var iss memtoken.Issuer
		fence := new(guard.Memory)
		locker := lock.Locker{Issuer: &iss, Claim: fence.Admit}
		for range 20 {
			err := locker.Hold(t.Context(), account, func(ctx context.Context) error {
				tok := fromContext(t, ctx, account)
				require.NoError(t, iss.Release(ctx, tok)) // without the lease's knowledge
				require.NoError(t, locker.Hold(t.Context(), account, nothing))
				return fence.Admit(ctx, tok)
			})
			var lost *token.LostError
			require.ErrorAs(t, err, &lost)
			require.NotContains(t, err.Error(), "two issuers")
		}
	})
}

func TestALostLeaseProvesNothingOfTheIssuer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var e recorder
		fence, _ := ahead(t, time.Hour, "the one before")
		locker := lock.Locker{Issuer: &e, TTL: ttl, HoldAtMost: ttl, DangerouslyWithoutClaim: true}
		require.ErrorIs(t, locker.Hold(t.Context(), account, func(ctx context.Context) error {
			<-ctx.Done()
			return fence.Admit(t.Context(), fromContext(t, ctx, account))
		}), guard.ErrStale)
		require.Equal(t, []string{"release " + account}, e.calls)
	})
}

// rival raises the mark after each recovery, as another issuer of the resource does.
func TestTwoIssuersDoNotRecoverForEver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		acquired := 0
		rival := func(_ context.Context, tok token.Token) error {
			return &guard.StaleError{Token: tok, Mark: guard.Mark{Number: tok.Number + 1000, Holder: "rival"}}
		}
		locker := lock.Locker{Issuer: new(memtoken.Issuer), Claim: rival, Hooks: lock.Hooks{
			Acquired: func(context.Context, token.Token, time.Duration) { acquired++ },
		}}
		require.ErrorIs(t, locker.Hold(t.Context(), account, nil), guard.ErrStale)
		require.Equal(t, 3, acquired, "twice again, and then it gives up")
		var err error
		for range 5 {
			err = errors.Join(err, locker.Hold(t.Context(), account, nil))
		}
		require.ErrorContains(t, err, "do two issuers grant this resource?")
	})
}
