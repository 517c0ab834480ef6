package gorm

import (
	"context"

	"gorm.io/gorm"
)

// WithdrawIncorrectly shows what not to do. It writes through the outer db where
// it should write through tx: over another connection, in a transaction that
// nobody admitted. Where the admitted one was ended because its holder slept in
// it, the write is applied all the same.
func (a *Accounts) WithdrawIncorrectly(ctx context.Context, id, amount int64) error {
	account := Account{ID: id}
	db := a.DB.WithContext(ctx)
	return db.Transaction(func(tx *gorm.DB) error {
		if err := a.Fence.Join(ctx, Tx(tx), account.Resource()); err != nil {
			return err
		}
		return account.withdraw(db, amount) // not tx
	})
}
