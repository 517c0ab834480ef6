package token_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// The machine is suspended: its monotonic clock stands still, and the issuer's
// goes on. When it wakes up no time has passed for its lease, whose context
// lives, and the resource is somebody else's.
// hazard L8
func TestALeaseThatSleptWithItsMachineIsRefusedByTheGuard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		require.Equal(t, 110, afterASuspend(t, new(guard.Memory).Admit))
		require.Equal(t, 70, afterASuspend(t, func(ctx context.Context, _ token.Token) error { return ctx.Err() }),
			"the twin goes by its context, and its successor's write is lost")
	})
}

// afterASuspend is the balance when the one that slept has tried to write.
func afterASuspend(t *testing.T, admit func(context.Context, token.Token) error) (balance int) {
	t.Helper()
	var w wire
	locker := token.Locker{Issuer: &w, Claim: admit}
	write := func(held *token.Lease, amount int) {
		if admit(held.Context(), held.Token()) == nil {
			balance = amount
		}
	}
	slept, err := locker.Acquire(t.Context(), account)
	require.NoError(t, err)
	require.NoError(t, w.far.Release(t.Context(), slept.Token())) // its time has passed, over there
	successor, err := locker.Acquire(t.Context(), account)
	require.NoError(t, err)
	write(successor, 110)
	require.NoError(t, slept.Context().Err())
	write(slept, 70)
	require.NoError(t, successor.Release(t.Context()))
	_ = slept.Release(t.Context()) // it hears of it now
	return balance
}
