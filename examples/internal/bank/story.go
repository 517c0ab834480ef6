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

// Code is an example: a way to spend from the account, and what is beside it.
type Code struct {
	// Claim is what its Locker claims with.
	Claim func(ctx context.Context, tok token.Token) error
	// Spend takes amount from the account under the token of ctx.
	Spend func(ctx context.Context, amount int64) error
	// Balance is the account's.
	Balance func(ctx context.Context) (int64, error)
}

// Refused has a holder spend, then its successor, then the holder again, who
// has slept meanwhile: that one must be refused.
func (c Code) Refused(t *testing.T) {
	t.Helper()
	left, found, said := c.overtake(t)
	require.ErrorIs(t, said, guard.ErrStale)
	require.Equal(t, left, found, "what the successor left")
}

// Corrupted is Refused of code without a guard, which must fall for it.
func (c Code) Corrupted(t *testing.T) {
	t.Helper()
	left, found, said := c.overtake(t)
	require.NoError(t, said, "the sleeper is told that all is well")
	require.NotEqual(t, left, found, "what the successor left")
}

func (c Code) overtake(t *testing.T) (left, found int64, said error) {
	t.Helper()
	sleeper, successor := tok(33), tok(34)
	require.NoError(t, c.Claim(t.Context(), sleeper))
	require.NoError(t, c.Spend(holding(t, sleeper), 10))
	require.NoError(t, c.Claim(t.Context(), successor))
	require.NoError(t, c.Spend(holding(t, successor), 20))
	left = c.balance(t)
	said = c.Spend(holding(t, sleeper), 40)
	return left, c.balance(t), said
}

func (c Code) balance(t *testing.T) int64 {
	t.Helper()
	balance, err := c.Balance(t.Context())
	require.NoError(t, err)
	return balance
}

// Survives puts the code to the test of package simulations.
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
