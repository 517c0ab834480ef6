package rounds

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/history"
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

// A holder that has lost a lease does not notice, and renews the next one.
func TestALostLeaseIsNotReported(t *testing.T) {
	t.Parallel()
	hiding := &issuer{unit: &unit{writer: &writer{subject: Subject{Issuer: forgetful{knows: 2}}, recorder: history.NewRecorder()}}}
	renew := func(number int64, timeout time.Duration) (time.Time, error) {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		return hiding.Renew(ctx, token.Token{Resource: "account/42", Number: number, Holder: "A"}, time.Second)
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
