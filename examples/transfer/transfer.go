package transfer

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/sqlguard"
)

// Schema makes the table of a Bank.
const Schema = "CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL)"

// ErrFunds is returned if the balance is lower than the amount.
var ErrFunds = errors.New("transfer: balance too low")

// Bank transfers money. Locks should claim by Fence.Admit.
type Bank struct {
	Locks *lock.Locker
	Fence *sqlguard.Guard
}

// Account returns the resource's name, which all writers of an account must use.
func Account(id int64) string { return fmt.Sprintf("account/%d", id) }

// Transfer moves amount from one account to another, or nothing. If a newer holder has
// one of the locks, it returns guard.ErrStale: try again.
func (b *Bank) Transfer(ctx context.Context, from, to, amount int64) error {
	accounts := []string{Account(from), Account(to)}
	return b.Locks.HoldAll(ctx, accounts, func(ctx context.Context) error {
		return b.Fence.UpdateAll(ctx, accounts, func(tx pgx.Tx) error {
			return Move(ctx, tx, from, to, amount)
		})
	})
}

// Move reads both balances and writes both. It needs a guarded transaction around it.
func Move(ctx context.Context, tx pgx.Tx, from, to, amount int64) error {
	var has, had int64
	err := tx.QueryRow(ctx, `SELECT f.balance, t.balance FROM accounts f, accounts t
		WHERE f.id = $1 AND t.id = $2 AND f.id <> t.id`, from, to).Scan(&has, &had)
	switch {
	case err != nil:
		return err
	case has < amount:
		return ErrFunds
	}
	const set = "UPDATE accounts SET balance = $2 WHERE id = $1"
	if _, err := tx.Exec(ctx, set, from, has-amount); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, set, to, had+amount)
	return err
}
