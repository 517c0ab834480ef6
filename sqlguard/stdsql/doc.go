// Package stdsql fences writes over database/sql. So far it speaks SQLite,
// through any driver.
//
// # What it is
//
// A [Guard] compares the token in a write's context with the mark of the
// resource, in the write's own transaction, and raises the mark:
//
//	Update    BEGIN ▶ admit ▶ fn(tx) ▶ COMMIT      read-modify-write in a closure
//	Join      admit                                in a transaction that is open already
//	Admit     BEGIN ▶ admit ▶ COMMIT               a claim, for token.Locker
//
// The marks are in the table that package migrations creates (dialect SQLite).
//
// # What it promises
//
//   - A write whose token is stale, or collides, is never applied; also where
//     its holder was paused before the transaction, or inside it.
//   - What an Update reads is not overwritten by an older token afterwards, and
//     is the last write of every older token.
//   - Admission is the first statement and always a write. So SQLite's write
//     lock is taken before anything is read, whoever has to wait waits there,
//     and two Updates never deadlock.
//   - A write has one outcome, which errors.Is finds: see package guard. A busy
//     database is [guard.ErrRetryable].
//   - Whatever COMMIT answers, no connection goes back to the pool with a
//     transaction open on it.
//
// # What it does not
//
// SQLite has one writer at a time, whatever the resource and the token. A
// process that is stopped inside a transaction keeps all others out of the
// database for as long as it is stopped: there is no server to end its
// transaction, so nothing here bounds that and nobody is evicted. They hear
// [guard.ErrRetryable] when their busy_timeout ends. What the stopped one
// writes when it goes on is in order, since nobody came between.
//
// The fence is the name: a row that is written under two resource names, or by
// a statement that goes around the guard, is not fenced. Locks of SQLite do not
// work on most network file systems, and neither does this. A database that is
// restored from a backup has the marks of the backup.
//
//	err := stdsql.Update(ctx, db, "account/42", func(tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - ? WHERE id = 42", amount)
//		return err
//	})
//	if errors.Is(err, guard.ErrStale) {
//		return err // the lock has passed on: nothing was written
//	}
//
// # Where next
//
// [Guard.Update] for the outcomes and for what fn must not do, [Guard.Join] for
// transactions that others begin, package sqlguard for PostgreSQL.
package stdsql
