// Command withdraw reads a balance, computes a new one, and writes it, in a transaction
// of the guard and under a lock in Redis. The README and docs/testing.md quote its
// test. It needs DATABASE_URL and REDIS_ADDR, and a table:
//
//	CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL);
//	INSERT INTO accounts VALUES (42, 100);
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token/redistoken"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR")})
	defer rdb.Close()
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	if err := (migrations.Set{}).Up(ctx, db); err != nil {
		return err
	}
	fence := &sqlguard.Guard{DB: pool}
	locks := &lock.Locker{Issuer: &redistoken.Issuer{Client: rdb}, Claim: fence.Admit}
	return withdraw(ctx, locks, fence, 30)
}

func withdraw(ctx context.Context, locks *lock.Locker, fence *sqlguard.Guard, amount int) error {
	return locks.Hold(ctx, "account/42", func(ctx context.Context) error {
		return fence.Update(ctx, "account/42", func(tx pgx.Tx) error {
			var balance int
			if err := tx.QueryRow(ctx, "SELECT balance FROM accounts WHERE id = 42").Scan(&balance); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "UPDATE accounts SET balance = $1 WHERE id = 42", balance-amount)
			return err
		})
	})
}
