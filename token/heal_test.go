package token_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// ahead is a guard that has admitted a number which the issuer will not come to
// by itself: that issuer has lost its memory, and its clock is behind.
func ahead(t *testing.T, by time.Duration, holder string) (*guard.Memory, int64) {
	t.Helper()
	number := time.Now().Add(by).UnixMicro() / 10
	fence := new(guard.Memory)
	require.NoError(t, fence.Admit(t.Context(), token.Token{Resource: account, Number: number, Holder: holder}))
	return fence, number
}

func TestAClaimHealsAnIssuerThatForgot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fence, mark := ahead(t, time.Hour, "the one before")
		var iss memtoken.Issuer
		var healed, acquired []int64
		locker := token.Locker{Issuer: &iss, Claim: fence.Admit, Observer: token.Observer{
			Acquired: func(_ context.Context, tok token.Token, _ time.Duration) { acquired = append(acquired, tok.Number) },
			Healed:   func(_ context.Context, _ token.Token, number int64) { healed = append(healed, number) },
		}}
		ran := 0
		require.NoError(t, locker.Hold(t.Context(), account, func(ctx context.Context) error {
			ran++
			require.Equal(t, mark+1, fromContext(t, ctx, account).Number)
			return fence.Admit(ctx, fromContext(t, ctx, account))
		}))
		require.Equal(t, 1, ran)
		require.Equal(t, []int64{mark}, healed)
		require.Len(t, acquired, 2)

		// The twin cannot be taught, and is refused until its clock has caught up.
		deaf := struct{ token.Issuer }{new(memtoken.Issuer)}
		err := (&token.Locker{Issuer: &deaf, Claim: fence.Admit}).Hold(t.Context(), account, nil)
		require.ErrorIs(t, err, guard.ErrStale)
	})
}

func TestARefusalInTheWorkHealsForTheNext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fence, mark := ahead(t, time.Hour, "the one before")
		locker := token.Locker{Issuer: new(memtoken.Issuer)}
		ran := 0
		write := func(ctx context.Context) error {
			ran++
			return fence.Admit(ctx, fromContext(t, ctx, account))
		}
		err := locker.Hold(t.Context(), account, write)
		require.ErrorIs(t, err, guard.ErrStale)
		require.NotErrorIs(t, err, token.ErrLost, "its lease was alive: the issuer forgot")
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
		locker := token.Locker{Issuer: &iss, Claim: fence.Admit}
		err := locker.Hold(t.Context(), account, func(ctx context.Context) error {
			tok := fromContext(t, ctx, account)
			require.NoError(t, iss.Release(ctx, tok)) // behind its back
			require.NoError(t, locker.Hold(t.Context(), account, func(context.Context) error { return nil }))
			return fence.Admit(ctx, tok)
		})
		require.ErrorIs(t, err, guard.ErrStale)
		require.ErrorIs(t, err, token.ErrLost, "the issuer knows of a newer one")
	})
}

// The same number was given to two holders, by two masters say.
// hazard R1
func TestACollisionAtTheClaimIsHealedByTheNextNumber(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var iss memtoken.Issuer
		fence, mark := ahead(t, 0, "the other")
		collided := 0
		locker := token.Locker{Issuer: &iss, Claim: fence.Admit, Observer: token.Observer{
			Collided: func(context.Context, token.Token, error) { collided++ },
		}}
		require.NoError(t, locker.Hold(t.Context(), account, func(ctx context.Context) error {
			require.Equal(t, mark+1, fromContext(t, ctx, account).Number)
			return nil
		}))
		require.Equal(t, 1, collided)
	})
}

func TestAPoisonedMarkIsNotRaisedTo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fence, _ := ahead(t, 25*time.Hour, "a forger")
		acquired := 0
		locker := token.Locker{Issuer: new(memtoken.Issuer), Claim: fence.Admit, Observer: token.Observer{
			Acquired: func(context.Context, token.Token, time.Duration) { acquired++ },
		}}
		err := locker.Hold(t.Context(), account, nil)
		require.ErrorIs(t, err, token.ErrPoisoned)
		require.ErrorIs(t, err, guard.ErrStale)
		require.Equal(t, 1, acquired, "it does not try again")
	})
}

// ear notes what it is asked.
type ear struct {
	memtoken.Issuer
	heard []string
}

func (e *ear) Raise(ctx context.Context, resource string, number int64) error {
	e.heard = append(e.heard, "raise "+resource)
	return e.Issuer.Raise(ctx, resource, number)
}

func (e *ear) Release(ctx context.Context, tok token.Token) error {
	e.heard = append(e.heard, "release "+tok.Resource)
	return e.Issuer.Release(ctx, tok)
}

// The release hands over to the next in line, whose number must be above.
func TestHealingComesBeforeTheRelease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var e ear
		fence, _ := ahead(t, time.Hour, "the one before")
		locker := token.Locker{Issuer: &e}
		require.ErrorIs(t, locker.Hold(t.Context(), account, func(ctx context.Context) error {
			return fence.Admit(ctx, fromContext(t, ctx, account))
		}), guard.ErrStale)
		require.Equal(t, []string{"raise " + account, "release " + account}, e.heard)
	})
}

// The inner one's refusal passes by the outer lease, which it does not concern.
func TestOnlyTheRefusedResourceIsHealed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var e ear
		fence, _ := ahead(t, time.Hour, "the one before")
		locker := token.Locker{Issuer: &e}
		require.ErrorIs(t, locker.HoldAll(t.Context(), []string{"account/1", account}, func(ctx context.Context) error {
			return fence.Admit(ctx, fromContext(t, ctx, account))
		}), guard.ErrStale)
		require.Equal(t, []string{"raise " + account, "release " + account, "release account/1"}, e.heard)
	})
}

func TestEachRefusalOfAJoinedErrorIsHealed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var e ear
		locker := token.Locker{Issuer: &e}
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
			"raise " + account, "release " + account, "raise account/1", "release account/1",
		}, e.heard)
	})
}

// A loss that the issuer knows of is no healing, however often it happens.
func TestLossesDoNotUseUpTheHealings(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var iss memtoken.Issuer
		fence := new(guard.Memory)
		locker := token.Locker{Issuer: &iss, Claim: fence.Admit}
		for range 20 {
			err := locker.Hold(t.Context(), account, func(ctx context.Context) error {
				tok := fromContext(t, ctx, account)
				require.NoError(t, iss.Release(ctx, tok)) // behind its back
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
		var e ear
		fence, _ := ahead(t, time.Hour, "the one before")
		locker := token.Locker{Issuer: &e, TTL: ttl, AtMost: ttl}
		require.ErrorIs(t, locker.Hold(t.Context(), account, func(ctx context.Context) error {
			<-ctx.Done()
			return fence.Admit(t.Context(), fromContext(t, ctx, account))
		}), guard.ErrStale)
		require.Equal(t, []string{"release " + account}, e.heard)
	})
}

// rival raises the mark whenever it is healed past: another issuer does so.
func TestTwoIssuersDoNotHealPastEachOtherForEver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		acquired := 0
		rival := func(_ context.Context, tok token.Token) error {
			return &guard.StaleError{Token: tok, Mark: guard.Mark{Number: tok.Number + 1000, Holder: "rival"}}
		}
		locker := token.Locker{Issuer: new(memtoken.Issuer), Claim: rival, Observer: token.Observer{
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
