// Package stdsql fences writes over database/sql, to PostgreSQL, MySQL, MariaDB
// and SQLite. It imports no driver.
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
// The marks are in the tables that package migrations creates, in the same
// dialect.
//
// # What it promises
//
//   - A write whose token is stale, or collides, is never applied; also where
//     its holder was paused before the transaction, or inside it.
//   - What an Update reads is not overwritten by an older token afterwards, and
//     is the last write of every older token, under every isolation level.
//   - Two Updates never deadlock because of the guard.
//   - A write has one outcome, which errors.Is finds: see package guard.
//   - Whatever COMMIT answers, no connection goes back to the pool with a
//     transaction open on it, or with another setting than it had.
//
// # The dialects
//
//	              admission holds          writers of one token   a paused writer
//	PostgreSQL    an advisory lock         side by side           ended after Idle, or evicted
//	MySQL         the mark's row, shared   side by side           ended after Idle
//	SQLite        the database             one after the other    nobody can end it
//
// On PostgreSQL it is what package sqlguard does over pgx, with the same
// functions in the same schema, so that both can be used side by side. The
// admission is one statement more than the unguarded transaction has; to send it
// in one packet with BEGIN takes pgx.
//
// On MySQL and MariaDB a token raises its mark in a short transaction of its
// own, under a lock on its row; every later transaction shares that lock, by a
// locking read before anything else. A savepoint behind it tells whether the
// transaction is still the same when it is to be committed. That makes five
// trips more than the unguarded transaction, of which [Guard.Idle] is two.
// Deadlocks and lock wait timeouts are [guard.ErrRetryable].
//
// On SQLite an admission is a write, so that the write lock is taken before
// anything is read. There is one writer at a time, whatever the resource. A
// process that is stopped inside a transaction keeps all others out for as long
// as it is stopped; they hear [guard.ErrRetryable] when their busy_timeout ends,
// and what the stopped one writes when it goes on is in order.
//
// # What it does not
//
// The fence is the name: a row that is written under two resource names, or by
// a statement that goes around the guard, is not fenced. A database that is
// restored from a backup, and a standby that is promoted, have the marks that
// they have.
//
// MySQL's locks are one server's: where several accept writes (Galera, a group
// in multi-primary mode), all writers of a resource must use the same one. There
// is no function there that could keep the marks for an account without rights:
// writers need SELECT, INSERT and UPDATE on fencepost_marks and SELECT on
// fencepost_floor, and so could lower a mark. What is said here was run on MariaDB
// 10.11; MySQL itself was not.
//
// SQLite's locks do not work on most network file systems, and neither does
// this.
//
//	err := stdsql.Update(ctx, db, "account/42", func(tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - $1 WHERE id = 42", amount)
//		return err
//	})
//	if errors.Is(err, guard.ErrStale) {
//		return err // the lock has passed on: nothing was written
//	}
//
// # Where next
//
// [Guard.Update] for the outcomes and for what fn must not do, [Guard.Join] for
// transactions that others begin, package sqlguard for PostgreSQL over pgx.
package stdsql
