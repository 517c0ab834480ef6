// Command quickstart is the program of the README. It locks report/1, reads a word
// while it holds the lock, and saves the word in PostgreSQL. It needs DATABASE_URL, and
// creates its tables.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token/pgtoken"
)

func main() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	check(err)
	check(migrations.Set{}.Up(ctx, stdlib.OpenDBFromPool(pool)))
	_, err = pool.Exec(ctx, "CREATE TABLE IF NOT EXISTS reports (id int PRIMARY KEY, body text)")
	check(err)

	fence := &sqlguard.Guard{DB: pool}
	locks := &lock.Locker{Issuer: &pgtoken.Issuer{DB: pool}, Claim: fence.Admit}
	check(locks.Hold(ctx, "report/1", func(ctx context.Context) error {
		var word string
		fmt.Print("report/1 is locked. New text: ")
		_, _ = fmt.Scanln(&word) // stop the process here, for longer than the lock lasts
		_, err := fence.On("report/1").Exec(ctx,
			"INSERT INTO reports VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET body = $1", word)
		return err
	}))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
