// Package sqlc guards code that sqlc has generated for pgx/v5: package db, from
// schema.sql and query.sql, by `sqlc generate`. The generated code is unchanged, and no
// method has a token parameter: the token is in ctx.
//
//	db.New(pool)                  reads, which need no token
//	db.New(fence.On(resource))    each query admitted by itself, in its own round trip
//	queries.WithTx(tx)            inside fence.Update: one admitted transaction
//
// Queries over On are for one resource. Make them for each call: they are one pointer.
package sqlc

//go:generate go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1 generate

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/examples/sqlc/db"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// ErrFunds is returned if the balance of the account is too low.
var ErrFunds = errors.New("accounts: balance too low")

// Accounts is a repository over generated code.
type Accounts struct {
	fence   *sqlguard.Guard
	queries *db.Queries
}

// New returns the accounts of a database that package migrations has migrated.
func New(pool *pgxpool.Pool) *Accounts {
	return &Accounts{fence: &sqlguard.Guard{DB: pool}, queries: db.New(pool)}
}

// resource returns the resource's name, which all writers of an account must use.
func resource(id int64) string { return fmt.Sprintf("account/%d", id) }

// of returns queries that are admitted for one account.
func (a *Accounts) of(id int64) *db.Queries { return db.New(a.fence.On(resource(id))) }

// Claim raises an account's mark. It is the Claim of the lock.Locker for accounts.
func (a *Accounts) Claim(ctx context.Context, tok token.Token) error { return a.fence.Admit(ctx, tok) }

// Balance is a plain read. The holder of a claimed token may rely on it until its next
// write: no older holder can write any more, and if a newer holder writes, the next write
// is refused.
func (a *Accounts) Balance(ctx context.Context, id int64) (int64, error) {
	return a.queries.Balance(ctx, id)
}

// SetBalance is one guarded statement.
func (a *Accounts) SetBalance(ctx context.Context, id, balance int64) error {
	return a.of(id).SetBalance(ctx, db.SetBalanceParams{ID: id, Balance: balance})
}

// Withdraw is one guarded transaction of several statements.
func (a *Accounts) Withdraw(ctx context.Context, id, amount int64) error {
	return a.fence.Update(ctx, resource(id), func(tx pgx.Tx) error {
		q := a.queries.WithTx(tx)
		balance, err := q.Balance(ctx, id)
		if err != nil {
			return err
		}
		if balance < amount {
			return ErrFunds
		}
		if err := q.SetBalance(ctx, db.SetBalanceParams{ID: id, Balance: balance - amount}); err != nil {
			return err
		}
		return q.AddEntry(ctx, db.AddEntryParams{Account: id, Amount: -amount})
	})
}

// Entries returns the entries of an account.
func (a *Accounts) Entries(ctx context.Context, id int64) ([]int64, error) {
	return a.queries.Entries(ctx, id)
}
