package stdsql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"

	_ "modernc.org/sqlite"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// A holder withdraws while it has the lock. Somebody who was paused since
// before then, and wakes up with the token it fell asleep with, is refused.
func Example() {
	db := exampleDB()
	defer db.Close()
	fence := &stdsql.Guard{DB: db, Dialect: stdsql.SQLite}
	withdraw := func(ctx context.Context, amount int) error {
		return fence.Update(ctx, "account/42", func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - ? WHERE id = 42", amount)
			return err
		})
	}

	locker := token.Locker{Issuer: new(memtoken.Issuer)}
	err := locker.Hold(context.Background(), "account/42", func(ctx context.Context) error {
		return withdraw(ctx, 10)
	})
	fmt.Println(err)

	asleep := token.Token{Resource: "account/42", Number: 33, Holder: "billing:7"}
	err = withdraw(token.NewContext(context.Background(), asleep), 100)
	fmt.Println(err, errors.Is(err, guard.ErrStale))
	// Output:
	// <nil>
	// guard: stale token account/42#33: mark is newer true
}

// A claim at the moment the lock is won makes everything that the holder reads
// afterwards safe to build on, inside a transaction or not.
func ExampleGuard_Admit() {
	db := exampleDB()
	defer db.Close()
	fence := &stdsql.Guard{DB: db, Dialect: stdsql.SQLite}
	locker := token.Locker{Issuer: new(memtoken.Issuer), Claim: fence.Admit}
	err := locker.Hold(context.Background(), "account/42", func(ctx context.Context) error {
		var balance int
		if err := db.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = 42").Scan(&balance); err != nil {
			return err
		}
		return fence.Update(ctx, "account/42", func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = ? WHERE id = 42", balance-10)
			return err
		})
	})
	fmt.Println(err)
	// Output: <nil>
}

// Somebody else begins the transaction, a framework say. Join comes first in
// it, and its error ends it.
func ExampleGuard_Join() {
	db := exampleDB()
	defer db.Close()
	tok := token.Token{Resource: "account/42", Number: 33, Holder: "billing:7"}
	ctx := token.NewContext(context.Background(), tok)

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	fence := stdsql.Guard{Dialect: stdsql.SQLite}
	if err := fence.Join(ctx, tx, "account/42"); err != nil {
		log.Fatal(err)
	}
	if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = 0 WHERE id = 42"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(tx.Commit())
	fmt.Println(fence.Join(ctx, db, "account/42"))
	// Output:
	// <nil>
	// stdsql: Join needs a transaction: *sql.DB can begin one, hand over what it began
}

// exampleDB is a database in memory: it lives on one connection.
func exampleDB() *sql.DB {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	if err := (migrations.Set{Dialect: migrations.SQLite}).Up(context.Background(), db); err != nil {
		log.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER); INSERT INTO accounts VALUES (42, 100)"); err != nil {
		log.Fatal(err)
	}
	return db
}
