// Package accounts keeps accounts in PostgreSQL.
package accounts

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/token"
)

// ErrFunds is returned if the balance of the account is too low.
var ErrFunds = errors.New("accounts: balance too low")

// Accounts is the repository.
type Accounts struct {
	pool *pgxpool.Pool
	rows *rowguard.Table
}

// New returns the accounts of a database. The table must have the columns of
// fencepost.add_mark_columns.
func New(pool *pgxpool.Pool) *Accounts {
	return &Accounts{pool: pool, rows: &rowguard.Table{
		Guard: &sqlguard.Guard{DB: pool}, Name: pgx.Identifier{"accounts"}, Prefix: "account/",
	}}
}

// Claim raises an account's mark. It is the Claim of the lock.Locker for accounts.
func (a *Accounts) Claim(ctx context.Context, tok token.Token) error { return a.rows.Claim(ctx, tok) }

// Balance returns the balance of an account.
func (a *Accounts) Balance(ctx context.Context, id int64) (balance int64, err error) {
	err = a.pool.QueryRow(ctx, "SELECT balance FROM accounts WHERE id = $1", id).Scan(&balance)
	return balance, err
}

// SetBalance sets the balance of an account.
func (a *Accounts) SetBalance(ctx context.Context, id, balance int64) error {
	return a.rows.Update(ctx, id, rowguard.Set{"balance": balance})
}

// Withdraw takes amount from an account. It returns ErrFunds if the balance is lower. It
// needs no transaction: after the claim no older holder can write the row, and if a newer
// holder has written it, this write is refused. Calls under one token must not be
// concurrent.
func (a *Accounts) Withdraw(ctx context.Context, id, amount int64) error {
	balance, err := a.Balance(ctx, id)
	if err != nil {
		return err
	}
	if balance < amount {
		return ErrFunds
	}
	return a.SetBalance(ctx, id, balance-amount)
}
