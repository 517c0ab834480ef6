package sqlguard_test

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/sqlguard"
)

var accounts = &sqlguard.Table{Guard: &sqlguard.Guard{DB: pool}, Name: pgx.Identifier{"accounts"}, Prefix: "account/"}

// A join: the condition is on the row that the UPDATE writes, a.
func ExampleFence() {
	own, err := accounts.Fence(ctx, 42)
	if err != nil {
		return
	}
	tag, err := pool.Exec(ctx, `
		UPDATE accounts AS a SET balance = a.balance - b.amount, `+own.Set("a", 1)+`
		  FROM bills AS b
		 WHERE b.account = a.id AND b.id = $5 AND `+own.Where("a", 1), append(own.Args(), 7)...)
	if err == nil && tag.RowsAffected() == 0 {
		err = accounts.Explain(ctx, 42)
	}
	fmt.Println(err)
}

// A CTE: what else the statement writes, it takes from the rows that the fenced
// one returns. With named arguments.
func ExampleFence_NamedArgs() {
	own, err := accounts.Fence(ctx, 42)
	if err != nil {
		return
	}
	args := own.NamedArgs()
	args["amount"] = 50
	tag, err := pool.Exec(ctx, `
		WITH paid AS (
			UPDATE accounts AS a SET balance = a.balance - @amount, `+own.Set("a", sqlguard.ByName)+`
			 WHERE a.balance >= @amount AND `+own.Where("a", sqlguard.ByName)+`
			RETURNING a.id
		)
		INSERT INTO ledger (account, amount) SELECT id, -@amount::bigint FROM paid`, args)
	if err == nil && tag.RowsAffected() == 0 {
		err = accounts.Explain(ctx, 42)
	}
	fmt.Println(err)
}

// A row that is taken only if nobody is at it: the condition is in the SELECT
// that locks it.
func ExampleFence_skipLocked() {
	own, err := accounts.Fence(ctx, 42)
	if err != nil {
		return
	}
	tag, err := pool.Exec(ctx, `
		UPDATE accounts AS a SET state = 'paying', `+own.Set("a", 1)+`
		 WHERE a.id = (SELECT c.id FROM accounts AS c WHERE c.state = 'ready' AND `+own.Where("c", 1)+`
		                  FOR UPDATE SKIP LOCKED)`, own.Args()...)
	if err == nil && tag.RowsAffected() == 0 {
		err = accounts.Explain(ctx, 42)
	}
	fmt.Println(err)
}

// Incorrect: the condition is judged on the row as it was when the statement
// began, not on the one that is written. Where the statement has to wait for a
// newer holder's write, it overwrites that. Say FOR UPDATE in the sub-select,
// or put the condition on a.
func ExampleFence_incorrect() {
	own, err := accounts.Fence(ctx, 42)
	if err != nil {
		return
	}
	_, _ = pool.Exec(ctx, `
		UPDATE accounts AS a SET balance = 70, `+own.Set("a", 1)+`
		 WHERE a.id IN (SELECT c.id FROM accounts AS c WHERE `+own.Where("c", 1)+`)`, own.Args()...)
}
