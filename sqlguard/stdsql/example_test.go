package stdsql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"time"

	_ "modernc.org/sqlite"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// On SQLite: a holder withdraws while it has the lock. A process that was paused before
// that, and continues with its old token, is refused.
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

	locker := lock.Locker{Issuer: new(memtoken.Issuer), DangerouslyWithoutClaim: true}
	err := locker.Hold(context.Background(), "account/42", func(ctx context.Context) error {
		return withdraw(ctx, 10)
	})
	fmt.Println(err)

	paused := token.Token{Resource: "account/42", Number: 33, Holder: "billing:7"}
	err = withdraw(token.NewContext(context.Background(), paused), 100)
	fmt.Println(errors.Is(err, guard.ErrStale))
	// Output:
	// <nil>
	// true
}

// On PostgreSQL a Guard needs only a DB, and the package-level Update needs no Guard.
func ExampleUpdate() {
	db, err := sql.Open("pgx", "postgres://localhost/accounts") // github.com/jackc/pgx/v5/stdlib
	if err != nil {
		log.Fatal(err)
	}
	locker := lock.Locker{Issuer: new(memtoken.Issuer), DangerouslyWithoutClaim: true}
	err = locker.Hold(context.Background(), "account/42", func(ctx context.Context) error {
		return stdsql.Update(ctx, db, "account/42", func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - $1 WHERE id = 42", 10)
			return err
		})
	})
	switch {
	case errors.Is(err, guard.ErrStale):
		log.Print("the lock has passed on: nothing was written")
	case errors.Is(err, guard.ErrUnknown):
		log.Print("the connection was lost during COMMIT: read before writing again")
	}
}

// On MySQL and MariaDB the marks are in the database that the DSN names.
func Example_mysql() {
	db, err := sql.Open("mysql", "app@tcp(localhost:3306)/accounts") // github.com/go-sql-driver/mysql
	if err != nil {
		log.Fatal(err)
	}
	fence := &stdsql.Guard{DB: db, Dialect: stdsql.MySQL, IdleTimeout: 3 * time.Second}
	locker := lock.Locker{Issuer: new(memtoken.Issuer), Claim: fence.Admit}
	err = locker.Hold(context.Background(), "account/42", func(ctx context.Context) error {
		return fence.Update(ctx, "account/42", func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - ? WHERE id = 42", 10)
			return err
		})
	})
	if errors.Is(err, guard.ErrRetryable) {
		log.Print("a deadlock, or a lock wait timeout: nothing was written, retry")
	}
}

// Two rows with a resource each are written in one transaction. Either both tokens are
// admitted before it reads anything, or neither is.
func ExampleGuard_UpdateAll() {
	db := exampleDB()
	defer db.Close()
	fence := &stdsql.Guard{DB: db, Dialect: stdsql.SQLite}
	locker := lock.Locker{Issuer: new(memtoken.Issuer), Claim: fence.Admit}
	accounts := []string{"account/42", "account/43"}
	err := locker.HoldAll(context.Background(), accounts, func(ctx context.Context) error {
		return fence.UpdateAll(ctx, accounts, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 10 WHERE id = 42")
			return err
		})
	})
	fmt.Println(err)
	// Output: <nil>
}

// After a claim right after the acquisition, the holder can build on everything that it
// reads, inside a transaction or not.
func ExampleGuard_Admit() {
	db := exampleDB()
	defer db.Close()
	fence := &stdsql.Guard{DB: db, Dialect: stdsql.SQLite}
	locker := lock.Locker{Issuer: new(memtoken.Issuer), Claim: fence.Admit}
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

// A framework begins the transaction. Join is its first statement. If Join fails, it ends
// the transaction.
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
	// stdsql: an admission needs a transaction: *sql.DB can begin one, hand over what it began, or the *sql.Tx inside it if it is a transaction that nests others
}

// A lock that does not number its holders, for example redsync's, gets a number right
// after it was acquired. The previous holder is refused from then on.
func ExampleGuard_Mint() {
	db := exampleDB()
	defer db.Close()
	fence := &stdsql.Guard{DB: db, Dialect: stdsql.SQLite}
	withdraw := func(ctx context.Context) error {
		return fence.Update(ctx, "account/42", func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 10 WHERE id = 42")
			return err
		})
	}

	paused, err := fence.Mint(context.Background(), "account/42", "7c1f") // the lock's random value
	if err != nil {
		log.Fatal(err)
	}
	successor, err := fence.Mint(context.Background(), "account/42", "e09b")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(withdraw(successor))
	fmt.Println(errors.Is(withdraw(paused), guard.ErrStale))
	// Output:
	// <nil>
	// true
}

// MintTx numbers a job in the transaction that claims it. The number is valid once that
// transaction has committed.
func ExampleGuard_MintTx() {
	db := exampleDB()
	defer db.Close()
	fence := &stdsql.Guard{Dialect: stdsql.SQLite}
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	ctx, err := fence.MintTx(context.Background(), tx, "job/7", "worker-3:attempt-1")
	if err != nil {
		log.Fatal(err)
	}
	tok, err := token.FromContext(ctx, "job/7")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tok.Resource, tok.Holder, tx.Commit())
	// Output: job/7 worker-3:attempt-1 <nil>
}

// exampleDB opens an in-memory database, which exists on one connection.
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
