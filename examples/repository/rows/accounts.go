// Package accounts keeps accounts in PostgreSQL.
package accounts

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// ErrFunds is returned for an account with less than what is wanted.
var ErrFunds = errors.New("accounts: not enough")

// Accounts is the repository.
type Accounts struct {
	pool *pgxpool.Pool
	rows *sqlguard.Table
}

// New returns the accounts of a database, whose table has the columns of
// fencepost.add_mark_columns.
func New(pool *pgxpool.Pool) *Accounts {
	return &Accounts{pool: pool, rows: &sqlguard.Table{
		Guard: &sqlguard.Guard{DB: pool}, Name: pgx.Identifier{"accounts"}, Prefix: "account/",
	}}
}

// Claim is for the token.Locker of whoever works on accounts.
func (a *Accounts) Claim(ctx context.Context, tok token.Token) error { return a.rows.Claim(ctx, tok) }

// Balance returns the balance of an account.
func (a *Accounts) Balance(ctx context.Context, id int64) (balance int64, err error) {
	err = a.pool.QueryRow(ctx, "SELECT balance FROM accounts WHERE id = $1", id).Scan(&balance)
	return balance, err
}

// SetBalance sets it.
func (a *Accounts) SetBalance(ctx context.Context, id, balance int64) error {
	return a.rows.Update(ctx, id, sqlguard.Set{{"balance", balance}})
}

// Withdraw takes amount from an account that has it. It needs no transaction:
// since the token was claimed the row is nobody else's, or the write is refused.
// Under one token it is for one goroutine at a time.
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
