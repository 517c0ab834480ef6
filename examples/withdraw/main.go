// Command withdraw is the program of the README: a withdrawal that a paused
// writer cannot make after its lock has passed on.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

func main() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		panic(err)
	}
	err = migrations.Up(ctx, stdlib.OpenDBFromPool(pool))
	if err != nil {
		panic(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR")})
	fmt.Println(withdraw(ctx, pool, rdb, 30))
}

func withdraw(ctx context.Context, pool *pgxpool.Pool, rdb *redis.Client, amount int) error {
	fence := &sqlguard.Guard{DB: pool}
	lock := token.Locker{Issuer: &redistoken.Issuer{Client: rdb}, Claim: fence.Admit}
	return lock.Hold(ctx, "account/42", func(ctx context.Context) error {
		return fence.Update(ctx, "account/42", func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance - $1 WHERE id = 42", amount)
			return err
		})
	})
}
