// Package stdsql fences writes over database/sql, to PostgreSQL, MySQL, MariaDB
// and SQLite. It imports no driver.
//
// # What it is
//
// A [Guard] compares the token in a write's context with the mark of the
// resource, in the write's own transaction, and raises the mark:
//
//	Update    BEGIN ▶ admit ▶ fn(tx) ▶ COMMIT      read-modify-write in a closure
//	Join      admit                                in a transaction that the caller has begun
//	Admit     BEGIN ▶ admit ▶ COMMIT               a claim, for lock.Locker
//	Mint      BEGIN ▶ mint ▶ COMMIT                a number, for a lock that has none
//	MintTx    mint                                 in a transaction that the caller has begun
//
// Package migrations creates the tables of the marks, for the same dialect.
//
// # What it promises
//
//   - A write whose token is stale, or collides, is never applied, even if its holder was
//     paused before the transaction or inside it.
//   - What an Update reads includes the last write of every older token, and no older
//     token overwrites it afterwards, under every isolation level.
//   - Two Updates never deadlock because of the guard.
//   - A write has one outcome, which errors.Is finds: see package guard.
//   - An engine that is not known to fence is refused, and nothing is applied.
//   - No connection returns to the pool with an open transaction or with changed
//     settings, whatever the reply to COMMIT was.
//
// # The dialects
//
//	              admission holds          writers of one token   a paused writer
//	PostgreSQL    an advisory lock         in parallel            ended after IdleTimeout, or evicted
//	MySQL         the mark's row, shared   in parallel            ended after IdleTimeout
//	SQLite        the database             one after the other    cannot be ended
//
// On PostgreSQL this package calls the same functions in the same schema as package
// sqlguard, so both can be used together. The admission is one more statement than the
// unguarded transaction has. Only pgx can send it in one packet with BEGIN.
//
// On MySQL and MariaDB a token raises its mark in a short transaction of its own, under
// an exclusive lock on the mark's row. Every later transaction shares a lock on that row,
// by a locking read before anything else. A savepoint after it shows before COMMIT
// whether the transaction is still the same. That makes five more round trips than the
// unguarded transaction (two of them for [Guard.IdleTimeout]), and one more for each new
// connection. Deadlocks and lock wait timeouts are [guard.ErrRetryable].
//
// On SQLite an admission is a write, so the write lock is taken before anything is read.
// There is one writer at a time, whatever the resource. If a process is stopped inside a
// transaction, all other writers wait until it continues. They get [guard.ErrRetryable]
// when their busy_timeout ends. When the stopped process continues, its writes are
// applied in order.
//
// # What it does not do
//
// The guard compares tokens by resource name: a row that is written under two resource
// names, or by a statement without the guard, is not fenced. A database that is restored
// from a backup, and a standby that is promoted, have only the marks that were copied to
// them.
//
// The fence on MySQL depends on the locks of a single server, and engines that only speak
// its protocol may not have these locks. So the guard queries each connection for its
// engine before its first transaction. An engine that is not known to fence is refused
// with [guard.ErrUnfenced], and nothing is applied. Refused are Galera and Percona XtraDB
// Cluster, a replication group with several primaries or with the consistency EVENTUAL,
// TiDB, NDB, a replica, and every other engine except MySQL and MariaDB. On PostgreSQL,
// engines other than PostgreSQL are refused.
//
// Join queries inside the caller's transaction, once for each session, and stores the
// result in a session variable (@fencepost_engine, fencepost.engine). If a server changes
// its mode, connections that were checked before do not detect it.
//
// A cluster is safe if all writers of all resources write to one node. No server can
// verify that: set [Guard.DangerouslyTrustEngine].
//
// MySQL has no functions that could maintain the marks on behalf of an account without
// rights on them. Writers need SELECT, INSERT and UPDATE on fencepost_marks and SELECT on
// fencepost_floor, and so could lower a mark. The package was tested on MariaDB 10.11. It
// was not tested on MySQL itself.
//
// On SQLite a driver whose Begin does nothing (rqlite's gorqlite/stdlib) is refused: each
// statement would commit by itself, and an admission would hold nothing. The check, VACUUM
// INTO NULL, changes nothing. It is sent once for each connection, and by each Join and
// MintTx.
//
// SQLite's locks do not work on most network file systems, so this package does not work
// there. Keep the marks and the rows in one file: with a write-ahead log, a crash can
// commit a transaction in one attached file and not in another. Under journal_mode = OFF,
// SQLite cannot roll back the writes of fn.
//
// # Example
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
//   - [Guard.Update] for the outcomes and for what fn must not do
//   - [Guard.Join] for transactions that other code begins
//   - [Guard.Mint] for locks that do not number their holders
//   - package sqlguard for PostgreSQL over pgx
package stdsql

// The files of this package, in reading order. The statements are in .sql files.
//
//	guard.go        the settings, and what each does in each dialect; a call, its tokens, their
//	                order and their limit; when two Guards have the same marks
//	update.go       Update; the claim (Admit), also before a write; when it evicts older writers
//	once.go         a unit that is applied once: inserted, its result, found after a refusal
//	transaction.go  BEGIN, the admission, COMMIT and ROLLBACK; when the outcome is unknown ("fn
//	                ended the transaction"); a COMMIT that is not sent; closed connections
//	join.go         Join; which tx are refused ("can begin one"); no writes after a failed Join
//	mint.go         a number for a lock that has none: Mint, MintTx; no number is left
//	dialect.go      what a dialect decides; a Schema for MySQL or SQLite is refused
//	postgres.go     what each SQLSTATE means; the eviction; a standby; a lost reply to COMMIT
//	mysql.go        the locks of a mark's row; what each error number means; an old snapshot; an
//	                implicit commit; the idle bound, and a lost connection
//	sqlite.go       the write lock; error texts ("database is locked"); a Begin that does nothing
//	engine.go       the engine check, once for each connection; the wrong Dialect ("seems to be")
//	report_only.go  what report-only mode reports, returns all the same, and logs
//	simulated.go    the switch for simulations: steps, the unguarded twin, dropped COMMITs
