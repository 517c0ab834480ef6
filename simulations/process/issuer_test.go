package process_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/process"
	"github.com/fencepost/fencepost/token"
)

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

// Who has lost a lease does not hear of it, and renews the next one.
func TestALossIsNotHeardOf(t *testing.T) {
	t.Parallel()
	deaf := process.Deaf(forgetful{knows: 2})
	renew := func(number int64, patience time.Duration) (time.Time, error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return deaf.Renew(ctx, token.Token{Resource: resource, Number: number, Holder: "A"}, ttl)
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
