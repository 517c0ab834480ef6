package process_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/process"
	"github.com/fencepost/fencepost/token"
)

// Not parallel: it sets the environment.
func TestRoundsByTheEnvironment(t *testing.T) {
	t.Setenv(process.EnvRounds, "many")
	_, err := process.Check(t, process.Options{Subject: "absent"})
	require.ErrorContains(t, err, "process: FENCEPOST_ROUNDS: ")
	t.Setenv(process.EnvRounds, "3")
	r, err := process.Check(t, process.Options{Subject: "absent"})
	require.Error(t, err)
	require.Equal(t, 3, r.Rounds)
	r, err = process.Check(t, process.Options{Subject: "absent", Rounds: 2})
	require.Error(t, err)
	require.Equal(t, 2, r.Rounds)
}

// forgetful is an issuer that has lost all numbers but one.
type forgetful struct {
	token.Issuer
	knows int64
}

func (f forgetful) Renew(_ context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	if tok.Number != f.knows {
		return time.Time{}, &token.LostError{Token: tok}
	}
	return time.Now().Add(ttl), nil
}

// A holder that has lost a lease does not notice, and renews the next one.
func TestALostLeaseIsNotReported(t *testing.T) {
	t.Parallel()
	hiding := process.HideLoss(forgetful{knows: 2})
	renew := func(number int64, timeout time.Duration) (time.Time, error) {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		return hiding.Renew(ctx, token.Token{Resource: resource, Number: number, Holder: "A"}, ttl)
	}
	for range 2 {
		_, err := renew(1, time.Millisecond)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, token.ErrLost)
	}
	until, err := renew(2, time.Minute)
	require.NoError(t, err)
	require.Greater(t, time.Until(until), 30*time.Minute)
}
