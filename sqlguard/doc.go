// Package sqlguard fences writes to PostgreSQL, over pgx.
//
// # What it is
//
// A [Guard] compares the token in a write's context with the mark of the
// resource, in the write's own transaction, and raises the mark:
//
//	Update    BEGIN·admit ▶ fn(tx) ▶ COMMIT        read-modify-write in a closure
//	On        admit·statement                      each statement, for sqlc and repositories
//	Table     statement, if the row's mark admits  rows that carry their own mark
//	Join      admit                                in a transaction that is open already
//	Admit     BEGIN·admit·COMMIT                   a claim, for token.Locker
//	Mint      BEGIN·mint·COMMIT                    a number, for locks that have none
//
// What stands between two ▶ is one packet. The marks and the functions that
// keep them are made by package migrations.
//
// # What it promises
//
//   - A write whose token is stale, or collides, is never applied; also where
//     its holder was paused between any two steps, for however long.
//   - What an Update reads is not overwritten by an older token afterwards, and
//     is the last write of every older token.
//   - An admission holds its resource until the transaction ends. Holders of
//     the mark's own token write in parallel; a newer token waits for those who
//     are in, at most as long as [Guard.Idle] says, and is never starved.
//   - A write has one outcome, which errors.Is finds: see package guard.
//   - A refusal leaves the connection, and what is prepared on it, as it was.
//
// # What it does not
//
// The fence is the name: a row that is written under two resource names, or by
// a statement that goes around the guard, is not fenced. An admission ends
// with the transaction or savepoint it was made in: see [Guard.Join]. The first
// write under a token that was not claimed claims it, in a transaction of its
// own: three packets more, once. Behind a pooler in transaction mode use an
// exec mode that does not name its prepared statements, or PgBouncer 1.21. A
// promoted asynchronous standby has forgotten what it was not sent, marks too.
//
//	err := sqlguard.Update(ctx, pool, "account/42", func(tx pgx.Tx) error {
//		_, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance - $1 WHERE id = 42", amount)
//		return err
//	})
//	if errors.Is(err, guard.ErrStale) {
//		return err // the lock has passed on: nothing was written
//	}
//
// # Where next
//
// [Guard.Update] for the outcomes, [Guard.On] for code that sqlc generated,
// [Table] for rows with a mark of their own, [Mint] for locks of your own,
// package token for where tokens come from.
package sqlguard
