package adopt

import (
	"context"

	"gorm.io/gorm"

	"github.com/fencepost/fencepost/contrib/gormguard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// GORM sets the balance through GORM, in the guard's transaction.
func GORM(ctx context.Context, db *gorm.DB, fence *stdsql.Guard, balance int64) error {
	return gormguard.Update(ctx, db, fence, "account/42", func(tx *gorm.DB) error {
		return tx.Table("accounts").Where("id = 42").Update("balance", balance).Error
	})
}
