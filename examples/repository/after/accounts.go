// Package accounts keeps accounts in PostgreSQL.
package accounts

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// ErrFunds is returned if the balance of the account is too low.
var ErrFunds = errors.New("accounts: balance too low")

// Accounts is the repository.
type Accounts struct {
	pool  *pgxpool.Pool
	fence *sqlguard.Guard
}

// New returns the accounts of a database.
func New(pool *pgxpool.Pool) *Accounts {
	return &Accounts{pool: pool, fence: &sqlguard.Guard{DB: pool}}
}

// resource returns the resource's name, which all writers of an account must use.
func resource(id int64) string { return fmt.Sprintf("account/%d", id) }

// Claim raises an account's mark. It is the Claim of the lock.Locker for accounts.
func (a *Accounts) Claim(ctx context.Context, tok token.Token) error { return a.fence.Admit(ctx, tok) }

// Balance returns the balance of an account.
func (a *Accounts) Balance(ctx context.Context, id int64) (balance int64, err error) {
	err = a.pool.QueryRow(ctx, "SELECT balance FROM accounts WHERE id = $1", id).Scan(&balance)
	return balance, err
}

// SetBalance sets the balance of an account.
func (a *Accounts) SetBalance(ctx context.Context, id, balance int64) error {
	_, err := a.fence.On(resource(id)).Exec(ctx, "UPDATE accounts SET balance = $2 WHERE id = $1", id, balance)
	return err
}

// Withdraw takes amount from an account. It returns ErrFunds if the balance is lower.
func (a *Accounts) Withdraw(ctx context.Context, id, amount int64) error {
	return a.fence.Update(ctx, resource(id), func(tx pgx.Tx) error {
		var balance int64
		if err := tx.QueryRow(ctx, "SELECT balance FROM accounts WHERE id = $1", id).Scan(&balance); err != nil {
			return err
		}
		if balance < amount {
			return ErrFunds
		}
		_, err := tx.Exec(ctx, "UPDATE accounts SET balance = $2 WHERE id = $1", id, balance-amount)
		return err
	})
}
