package bank

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// Code is an example: a way to spend from the account.
type Code struct {
	// Claim is the Claim of the example's Locker.
	Claim func(ctx context.Context, tok token.Token) error
	// Spend takes amount from the account under the token of ctx.
	Spend func(ctx context.Context, amount int64) error
	// Balance returns the account's balance.
	Balance func(ctx context.Context) (int64, error)
}

// Refused lets a holder spend, then its successor, then the first holder again after a
// pause: the last write must be refused.
func (c Code) Refused(t *testing.T) {
	t.Helper()
	left, found, said := c.overtake(t)
	require.ErrorIs(t, said, guard.ErrStale)
	require.Equal(t, left, found, "the successor's balance")
}

// Corrupted is Refused for code without a guard: the late write must be applied.
func (c Code) Corrupted(t *testing.T) {
	t.Helper()
	left, found, said := c.overtake(t)
	require.NoError(t, said, "the paused holder gets no error")
	require.NotEqual(t, left, found, "the successor's balance")
}

func (c Code) overtake(t *testing.T) (left, found int64, said error) {
	t.Helper()
	paused, successor := tok(33), tok(34)
	require.NoError(t, c.Claim(t.Context(), paused))
	require.NoError(t, c.Spend(holding(t, paused), 10))
	require.NoError(t, c.Claim(t.Context(), successor))
	require.NoError(t, c.Spend(holding(t, successor), 20))
	left = c.balance(t)
	said = c.Spend(holding(t, paused), 40)
	return left, c.balance(t), said
}

func (c Code) balance(t *testing.T) int64 {
	t.Helper()
	balance, err := c.Balance(t.Context())
	require.NoError(t, err)
	return balance
}

// Survives tests the code with package simulations.
func (c Code) Survives(t *testing.T) {
	simulations.Run(t, simulations.Subject{
		Issuer:   new(memtoken.Issuer),
		Resource: Resource,
		Claim:    c.Claim,
		Do:       func(ctx context.Context) error { return c.Spend(ctx, 1) },
		Count: func(ctx context.Context) (int, error) {
			balance, err := c.Balance(ctx)
			return Opening - int(balance), err
		},
	})
}
