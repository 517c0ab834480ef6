// Package databasesql fences writes over database/sql, here to PostgreSQL through
// pgx/stdlib. For MySQL, MariaDB and SQLite only the guard's Dialect differs.
//
//	fence.Update(ctx, resource, fn)    begins the transaction itself
//	fence.Join(ctx, tx, resource)      comes first in a transaction that the caller has begun
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

// ErrFunds is returned if the balance of the account is too low.
var ErrFunds = errors.New("accounts: balance too low")

// Accounts is a repository over database/sql.
type Accounts struct {
	db    *sql.DB
	fence *stdsql.Guard
}

// New returns the accounts of a database that package migrations has migrated.
func New(db *sql.DB) *Accounts { return &Accounts{db: db, fence: &stdsql.Guard{DB: db}} }

// resource returns the resource's name, which all writers of an account must use.
func resource(id int64) string { return fmt.Sprintf("account/%d", id) }

// Claim raises an account's mark. It is the Claim of the lock.Locker for accounts.
func (a *Accounts) Claim(ctx context.Context, tok token.Token) error { return a.fence.Admit(ctx, tok) }

// Balance is a plain read.
func (a *Accounts) Balance(ctx context.Context, id int64) (balance int64, err error) {
	err = a.db.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = $1", id).Scan(&balance)
	return balance, err
}

// Withdraw takes amount from an account in a transaction of the guard's.
func (a *Accounts) Withdraw(ctx context.Context, id, amount int64) error {
	return a.fence.Update(ctx, resource(id), func(tx *sql.Tx) error { return withdraw(ctx, tx, id, amount) })
}

// WithdrawIn is Withdraw in a transaction that the caller has begun and has not read from
// yet. After an error the caller must roll back.
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
