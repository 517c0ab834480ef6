package gorm_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	example "github.com/fencepost/fencepost/examples/gorm"
	"github.com/fencepost/fencepost/examples/internal/bank"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/token/memtoken"
)

func TestAWriteOutsideTheTransactionLosesMoney(t *testing.T) {
	t.Parallel()
	a := open(t, gorm.Config{})
	code := coded(a, func(ctx context.Context, a *example.Accounts, amount int64) error {
		return a.WithdrawIncorrectly(ctx, 42, amount)
	})
	err := simulations.Examine(t, simulations.Subject{
		Issuer: new(memtoken.Issuer), Resource: bank.Resource, Claim: code.Claim, Bound: idle,
		Do: func(ctx context.Context) error { return code.Spend(ctx, 1) },
		Count: func(ctx context.Context) (int, error) {
			balance, err := code.Balance(ctx)
			return bank.Opening - int(balance), err
		},
	})
	var verdict *simulations.Verdict
	require.ErrorAs(t, err, &verdict)
	require.True(t, verdict.Breaks("order"), "%v", verdict)
}
