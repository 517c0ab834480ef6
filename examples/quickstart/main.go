// Command quickstart is the program of the README. It locks report/1, reads a word
// while it holds the lock, and saves the word in PostgreSQL. It needs DATABASE_URL,
// the tables of `fencepost migrate up`, and a table of its own:
//
//	CREATE TABLE reports (id int PRIMARY KEY, body text NOT NULL);
//	INSERT INTO reports VALUES (1, '');
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token/pgtoken"
)

func main() {
	pool, err := pgxpool.New(context.Background(), os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	fence := &sqlguard.Guard{DB: pool}
	locks := &lock.Locker{Issuer: &pgtoken.Issuer{DB: pool}, Claim: fence.Admit}
	if err := locks.Hold(context.Background(), "report/1", func(ctx context.Context) error {
		var word string
		fmt.Print("report/1 is locked. New text: ")
		_, _ = fmt.Scanln(&word) // stop the process here, for longer than the lock lasts
		_, err := fence.On("report/1").Exec(ctx, "UPDATE reports SET body = $1 WHERE id = 1", word)
		return err
	}); err != nil {
		log.Fatal(err)
	}
}
