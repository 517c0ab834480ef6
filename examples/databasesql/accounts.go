// Package databasesql fences writes over database/sql, here to PostgreSQL
// through pgx/stdlib; MySQL, MariaDB and SQLite differ by the guard's Dialect.
//
//	fence.Update(ctx, resource, fn)    begins the transaction itself
//	fence.Join(ctx, tx, resource)      comes first in one that somebody else has begun
//
// The guard needs the *sql.Tx: a statement on the *sql.DB is not fenced.
package databasesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

// ErrFunds is returned for an account with less than what is wanted.
var ErrFunds = errors.New("accounts: not enough")

// Accounts is a repository over database/sql.
type Accounts struct {
	db    *sql.DB
	fence *stdsql.Guard
}

// New returns the accounts of a database that package migrations has migrated.
func New(db *sql.DB) *Accounts { return &Accounts{db: db, fence: &stdsql.Guard{DB: db}} }

// resource is the one name that all writers of an account use.
func resource(id int64) string { return fmt.Sprintf("account/%d", id) }

// Claim is for the token.Locker of whoever works on accounts.
func (a *Accounts) Claim(ctx context.Context, tok token.Token) error { return a.fence.Admit(ctx, tok) }

// Balance is a read like any other.
func (a *Accounts) Balance(ctx context.Context, id int64) (balance int64, err error) {
	err = a.db.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = $1", id).Scan(&balance)
	return balance, err
}

// Withdraw takes amount from an account in a transaction of the guard's.
func (a *Accounts) Withdraw(ctx context.Context, id, amount int64) error {
	return a.fence.Update(ctx, resource(id), func(tx *sql.Tx) error { return withdraw(ctx, tx, id, amount) })
}

// WithdrawIn does so in a transaction that the caller has begun, where nothing
// that matters was read yet. After an error the caller rolls back.
func (a *Accounts) WithdrawIn(ctx context.Context, tx *sql.Tx, id, amount int64) error {
	if err := a.fence.Join(ctx, tx, resource(id)); err != nil {
		return err
	}
	return withdraw(ctx, tx, id, amount)
}

func withdraw(ctx context.Context, tx *sql.Tx, id, amount int64) error {
	var balance int64
	if err := tx.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = $1", id).Scan(&balance); err != nil {
		return err
	}
	if balance < amount {
		return ErrFunds
	}
	_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = $2 WHERE id = $1", id, balance-amount)
	return err
}
