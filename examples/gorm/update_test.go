package gorm_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	example "github.com/fencepost/fencepost/examples/gorm"
	"github.com/fencepost/fencepost/examples/internal/bank"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

func TestWhatWasInTheWayIsTriedAgain(t *testing.T) {
	t.Parallel()
	a := open(t, gorm.Config{})
	a.Fence.Tx = &sql.TxOptions{Isolation: sql.LevelRepeatableRead}
	ctx := token.NewContext(t.Context(), token.Token{Resource: bank.Resource, Number: 33, Holder: "h"})
	runs := 0
	withdraw := func(ctx context.Context) error {
		return example.Update(ctx, a.DB, a.Fence, bank.Resource, func(tx *gorm.DB) error {
			account := example.Account{ID: 42}
			if err := tx.First(&account).Error; err != nil {
				return err
			}
			if runs++; runs == 1 { // a peer under the same token gets in between
				if err := a.Withdraw(ctx, 42, 10); err != nil {
					return err
				}
			}
			return tx.Model(&account).Update("balance", account.Balance-20).Error
		})
	}
	require.NoError(t, example.Retry(ctx, withdraw))
	require.Equal(t, 2, runs)
	account := example.Account{ID: 42}
	require.NoError(t, a.DB.First(&account).Error)
	require.EqualValues(t, bank.Opening-30, account.Balance, "neither is lost")

	tries, other := 0, errors.New("other")
	for err, want := range map[error]int{guard.ErrRetryable: 5, guard.ErrStale: 1, other: 1, nil: 1} {
		tries = 0
		require.ErrorIs(t, example.Retry(ctx, func(context.Context) error { tries++; return err }), err)
		require.Equal(t, want, tries, "%v", err)
	}
}
