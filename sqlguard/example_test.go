package sqlguard_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

var (
	ctx    context.Context
	pool   *pgxpool.Pool
	issuer token.Issuer
)

// A read-modify-write. No older token writes after the read, and no newer token writes
// before the commit.
func ExampleUpdate() {
	err := sqlguard.Update(ctx, pool, "account/42", func(tx pgx.Tx) error {
		var balance int
		if err := tx.QueryRow(ctx, "SELECT balance FROM accounts WHERE id = 42").Scan(&balance); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "UPDATE accounts SET balance = $1 WHERE id = 42", balance-50)
		return err
	})
	switch {
	case errors.Is(err, guard.ErrStale):
		fmt.Println("the lock has passed on, nothing was written")
	case errors.Is(err, guard.ErrRetryable):
		fmt.Println("run it again")
	case errors.Is(err, guard.ErrUnknown):
		fmt.Println("read account 42 to find out")
	}
}

// A withdrawal that is applied once, in a loop that is right for every error: see again.
// docs/errors.md explains it.
func ExampleGuard_Once() {
	fence := &sqlguard.Guard{DB: pool}
	locks := &lock.Locker{Issuer: issuer, Claim: fence.Admit}
	balance, err := withdrawOnce(ctx, locks, fence, "7", 50)
	fmt.Println(string(balance), err)
}

func withdrawOnce(ctx context.Context, locks *lock.Locker, fence *sqlguard.Guard, payment string, amount int) ([]byte, error) {
	unit := guard.Unit{Key: "payment/" + payment, Fingerprint: strconv.Itoa(amount)}
	var unknown error
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		var balance []byte
		applied := false
		err := locks.Hold(ctx, "account/42", func(ctx context.Context) (err error) {
			balance, err = fence.Once(ctx, "account/42", unit, func(tx pgx.Tx) ([]byte, error) {
				row := tx.QueryRow(ctx, "UPDATE accounts SET balance = balance - $1 WHERE id = 42 RETURNING balance::text::bytea", amount)
				var left []byte
				return left, row.Scan(&left)
			})
			applied = err == nil
			return err
		})
		if applied {
			return balance, nil // also if Hold could not release the lock, or has lost it since
		}
		if errors.Is(err, guard.ErrUnknown) {
			unknown = guard.ErrUnknown
		}
		if !again(err) {
			return nil, errors.Join(err, unknown)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, unknown)
		case <-time.After(pause):
		}
	}
}

// again reports whether the unit is to be repeated, under a new token.
func again(err error) bool {
	switch {
	case errors.Is(err, guard.ErrUnknown): // Once finds out
		return true
	case errors.Is(err, guard.ErrCollision): // the issuer has lost its numbers
		return false
	case errors.Is(err, guard.ErrStale), errors.Is(err, guard.ErrRetryable), errors.Is(err, guard.ErrEvicted),
		errors.Is(err, token.ErrHeld), errors.Is(err, token.ErrLost), errors.Is(err, token.ErrUnreachable):
		return true
	}
	// The work's own error, the end of ctx, a failure of the database, or a bug: another
	// refusal (guard.IsRefusal), guard.ErrKeyReused, token.ErrReleased.
	return false
}

// A repository that takes sqlc's DBTX is guarded without a change. If the Locker claims,
// its reads are safe too.
func ExampleGuard_On() {
	g := &sqlguard.Guard{DB: pool}
	locker := lock.Locker{Issuer: issuer, Claim: g.Admit}
	err := locker.Hold(ctx, "account/42", func(ctx context.Context) error {
		_, err := g.On("account/42").Exec(ctx, "UPDATE accounts SET balance = balance - $1 WHERE id = $2", 50, 42)
		return err
	})
	fmt.Println(err)
}

// In a transaction that the caller has begun, as its first statement.
func ExampleGuard_JoinAll() {
	g := &sqlguard.Guard{DB: pool}
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := g.JoinAll(ctx, tx, []string{"account/42", "account/43"}); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance - 50 WHERE id = 42")
		return err
	})
	fmt.Println(err)
}

// With a lock of your own, call Mint right after you acquired it.
func ExampleGuard_Mint() {
	g := &sqlguard.Guard{DB: pool}
	// if err := yourLock.Acquire(ctx) ...
	ctx, err := g.Mint(ctx, "account/42", "worker-7:attempt-1")
	if err != nil {
		return
	}
	err = g.Update(ctx, "account/42", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance - 50 WHERE id = 42")
		return err
	})
	fmt.Println(err)
}
