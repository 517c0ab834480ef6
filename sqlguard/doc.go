// Package sqlguard fences writes to PostgreSQL, over pgx.
//
// # What it is
//
// A [Guard] compares the token in a write's context with the mark of the
// resource, in the write's own transaction, and raises the mark:
//
//	Update    BEGIN·admit ▶ fn(tx) ▶ COMMIT        read-modify-write in a closure
//	On        admit·statement                      each statement, for sqlc and repositories
//	Join      admit                                in a transaction that the caller has begun
//	Admit     BEGIN·admit·COMMIT                   a claim, for lock.Locker
//	Mint      BEGIN·mint·COMMIT                    a number, for a lock without numbers
//
// Each ▶ begins another round trip. Package migrations creates the table of marks and the
// SQL functions that read and write it.
//
// # What it promises
//
//   - A write whose token is stale, or collides, is never applied, even if its holder was
//     paused between any two steps, for however long.
//   - What an Update reads includes the last write of every older token, and no older
//     token overwrites it afterwards.
//   - An admission holds its resource until the transaction ends. Holders of the mark's
//     own token write in parallel. A newer token waits for older writers, for
//     [Guard.IdleTimeout] at most, and is never starved.
//   - A write has one outcome, which errors.Is finds: see package guard.
//   - A refusal leaves the connection usable and keeps its prepared statements.
//
// # What it does not do
//
//   - The guard compares tokens by resource name. A row that is written under two
//     resource names, or by a statement without the guard, is not fenced.
//   - An admission ends with the transaction or savepoint in which it was made: see
//     [Guard.Join].
//   - If a token was not claimed, its first write claims it in a transaction of its own.
//     That costs three more round trips, once.
//   - Before the first batch on a connection, the guard queries the server for its
//     engine, in one round trip. An engine that is not known to fence is refused with
//     [guard.ErrUnfenced]: see [Guard.DangerouslyTrustEngine]. A statement that the
//     caller sends with a Fence of package rowguard is not checked.
//   - Behind a pooler in transaction mode, use an exec mode without named prepared
//     statements, or PgBouncer 1.21 or later.
//   - A promoted asynchronous standby lacks the transactions that it did not receive, and
//     the marks in them.
//
// # Example
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
//   - [Guard.Update] for the outcomes
//   - [Guard.On] for code that sqlc generated
//   - package [github.com/fencepost/fencepost/sqlguard/rowguard] for rows that carry
//     their own mark
//   - [Guard.Mint] for locks that do not number their holders
//   - package token for where tokens come from
package sqlguard

// The files of this package, in reading order:
//
//	guard.go           the settings; Update, Join, Mint; a claim (Admit) that sends nothing; the
//	                   order and limit of a call's resources; which Guards share marks
//	once.go            a unit that is applied once: who gets the first result; a reused key
//	conn.go            single statements, for sqlc (On): which get BEGIN and COMMIT; which call
//	                   returns the outcome (Close, Scan); pgx's options are refused; CopyFrom
//	batch.go           batches (SendBatch): the outcome at Close; a callback's own error:
//	                   ErrUnknown; BeginTx is refused
//	statement_kind.go  which statements are refused: COMMIT, several in a string, an incomplete
//	                   one; a command tag that shows the end of the transaction; the lexer
