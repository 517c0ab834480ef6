// Package gorm fences what GORM writes, in three ways:
//
//	Update(ctx, db, fence, resource, fn)    GORM in a transaction of the guard's
//	fence.Join(ctx, Tx(tx), resource)       first in a db.Transaction of one's own
//	db.Use(&Fence{Guard: fence})            every Create, Save, Update and Delete by itself
//
// The first one knows every outcome, of the COMMIT too, and claims a token that
// was not claimed. In the others GORM commits: what it says of that is a plain
// error. A savepoint, which a db.Transaction inside another is, takes back what
// was admitted inside it. Raw SQL outside of these is not fenced.
package gorm

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// ErrFunds is returned for an account with less than what is wanted.
var ErrFunds = errors.New("accounts: not enough")

// Account is a row.
type Account struct {
	ID      int64
	Balance int64
}

// Resource is the one name that all writers of an account use.
func (a *Account) Resource() string { return fmt.Sprintf("account/%d", a.ID) }

// Accounts is a repository over GORM.
type Accounts struct {
	DB    *gorm.DB
	Fence *stdsql.Guard
}

// Withdraw takes amount from an account in a transaction of the guard's.
func (a *Accounts) Withdraw(ctx context.Context, id, amount int64) error {
	account := Account{ID: id}
	return Update(ctx, a.DB, a.Fence, account.Resource(), func(tx *gorm.DB) error { return account.withdraw(tx, amount) })
}

// WithdrawJoined does so in a transaction of GORM's.
func (a *Accounts) WithdrawJoined(ctx context.Context, id, amount int64) error {
	account := Account{ID: id}
	return a.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := a.Fence.Join(ctx, Tx(tx), account.Resource()); err != nil {
			return err
		}
		return account.withdraw(tx, amount)
	})
}

func (a *Account) withdraw(tx *gorm.DB, amount int64) error {
	if err := tx.First(a).Error; err != nil {
		return err
	}
	if a.Balance < amount {
		return ErrFunds
	}
	return tx.Model(a).Update("balance", a.Balance-amount).Error
}
