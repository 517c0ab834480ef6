package rowguard_test

import "fmt"

// A join: the condition is on the row that the UPDATE writes, a.
func ExampleFence() {
	own, err := accounts.Fence(ctx, 42)
	if err != nil {
		return
	}
	f := own.Clauses("a", 7)
	tag, err := pool.Exec(ctx, `
		UPDATE accounts AS a SET balance = a.balance - b.amount, `+f.Set+`
		  FROM bills AS b
		 WHERE b.account = a.id AND b.id = $1 AND `+f.Where, f.Args...)
	if err == nil && tag.RowsAffected() == 0 {
		err = accounts.Explain(ctx, 42)
	}
	fmt.Println(err)
}

// A CTE: the other table that the statement writes takes its rows from the fenced UPDATE.
func ExampleFence_cte() {
	own, err := accounts.Fence(ctx, 42)
	if err != nil {
		return
	}
	f := own.Clauses("a", 50)
	tag, err := pool.Exec(ctx, `
		WITH paid AS (
			UPDATE accounts AS a SET balance = a.balance - $1, `+f.Set+`
			 WHERE a.balance >= $1 AND `+f.Where+`
			RETURNING a.id
		)
		INSERT INTO ledger (account, amount) SELECT id, -$1::bigint FROM paid`, f.Args...)
	if err == nil && tag.RowsAffected() == 0 {
		err = accounts.Explain(ctx, 42)
	}
	fmt.Println(err)
}

// A row that is taken only if no other transaction has locked it: the condition is in
// the SELECT that locks it.
func ExampleFence_skipLocked() {
	own, err := accounts.Fence(ctx, 42)
	if err != nil {
		return
	}
	raise, chosen := own.Clauses("a"), own.Clauses("c")
	tag, err := pool.Exec(ctx, `
		UPDATE accounts AS a SET state = 'paying', `+raise.Set+`
		 WHERE a.id = (SELECT c.id FROM accounts AS c WHERE c.state = 'ready' AND `+chosen.Where+`
		                  FOR UPDATE SKIP LOCKED)`, chosen.Args...)
	if err == nil && tag.RowsAffected() == 0 {
		err = accounts.Explain(ctx, 42)
	}
	fmt.Println(err)
}

// Incorrect: the condition is evaluated on the row as of the statement's start. If the
// statement waits for a newer holder's write, it overwrites that write. Use FOR UPDATE in
// the sub-select, or put the condition on a.
func ExampleFence_incorrect() {
	own, err := accounts.Fence(ctx, 42)
	if err != nil {
		return
	}
	raise, chosen := own.Clauses("a"), own.Clauses("c")
	_, _ = pool.Exec(ctx, `
		UPDATE accounts AS a SET balance = 70, `+raise.Set+`
		 WHERE a.id IN (SELECT c.id FROM accounts AS c WHERE `+chosen.Where+`)`, chosen.Args...)
}
