package sqlguard_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// Accounts is a repository whose rows carry their own mark. Its methods ask for
// no token: it comes with the context.
type Accounts struct {
	pool *pgxpool.Pool
	rows *sqlguard.Table
}

func NewAccounts(pool *pgxpool.Pool) *Accounts {
	return &Accounts{pool: pool, rows: &sqlguard.Table{
		Guard: &sqlguard.Guard{DB: pool}, Name: pgx.Identifier{"accounts"}, Prefix: "account/",
	}}
}

// Claim is for the locker of whoever works on accounts.
func (a *Accounts) Claim(ctx context.Context, tok token.Token) error { return a.rows.Claim(ctx, tok) }

// Withdraw reads, decides, and writes. Claimed before, the row is nobody else's
// meanwhile, however long this holder is paused in between: or it is refused.
func (a *Accounts) Withdraw(ctx context.Context, id, amount int64) error {
	var balance int64
	if err := a.pool.QueryRow(ctx, "SELECT balance FROM accounts WHERE id = $1", id).Scan(&balance); err != nil {
		return err
	}
	if balance < amount {
		return errors.New("not enough")
	}
	return a.rows.Update(ctx, id, sqlguard.Set{{"balance", balance - amount}})
}

func ExampleTable() {
	accounts := NewAccounts(pool)
	locks := &token.Locker{Issuer: issuer, Claim: accounts.Claim}
	err := locks.Hold(ctx, "account/42", func(ctx context.Context) error {
		return accounts.Withdraw(ctx, 42, 50)
	})
	switch {
	case errors.Is(err, guard.ErrStale):
		fmt.Println("the lock has passed on, nothing was written")
	case errors.Is(err, guard.ErrNoRow):
		fmt.Println("there is no account 42")
	}
}
