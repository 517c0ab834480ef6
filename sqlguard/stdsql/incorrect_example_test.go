package stdsql_test

import (
	"context"
	"fmt"
	"log"

	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

// Incorrect: the token is admitted in one transaction and the write is made in another. A
// holder that is paused between the two overwrites its successor. Admit is for claims.
// Put the write into an Update.
func Example_incorrect() {
	db := exampleDB()
	defer db.Close()
	ctx := context.Background()
	g := &stdsql.Guard{DB: db, Dialect: stdsql.SQLite}
	stale := token.Token{Resource: "account/42", Number: 33, Holder: "a"}
	successor := token.Token{Resource: "account/42", Number: 34, Holder: "b"}

	fmt.Println("admitted:", g.Admit(ctx, stale))
	// Here the holder is paused, its lease expires, and another holder takes over.
	fmt.Println("admitted:", g.Admit(ctx, successor))
	if _, err := db.ExecContext(ctx, "UPDATE accounts SET balance = 90 WHERE id = 42"); err != nil {
		log.Fatal(err)
	}
	// The paused holder continues after its admission.
	if _, err := db.ExecContext(ctx, "UPDATE accounts SET balance = 50 WHERE id = 42"); err != nil {
		log.Fatal(err)
	}
	var balance int
	if err := db.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = 42").Scan(&balance); err != nil {
		log.Fatal(err)
	}
	fmt.Println("balance:", balance)
	// Output:
	// admitted: <nil>
	// admitted: <nil>
	// balance: 50
}
