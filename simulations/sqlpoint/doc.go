// Package sqlpoint lets a simulation observe, and stop, what a program sends to a database
// with database/sql. The program's code does not change.
//
// # What it is
//
// [Wrap] and [Open] wrap a driver. The wrapper reports these steps to the simulation that a
// call's context belongs to, and the call blocks until the simulation lets it continue:
//
//	begin      before a transaction begins, and before a statement outside of one
//	statement  before a statement inside a transaction
//	commit     before COMMIT
//	applied    when a write was acknowledged, before the caller gets the reply
//	undone     when a transaction has ended without a write
//	unknown    when a COMMIT, or a write outside of a transaction, failed with an error
//	           that leaves its outcome unknown
//
// Commit and Rollback use the context of BeginTx, or of the last statement whose context
// belonged to a simulation. The statements BEGIN, COMMIT and ROLLBACK are recognized too.
// If a guard of package stdsql has begun the transaction, the guard reports its steps, and
// the wrapper adds the statements.
//
// # What it promises
//
// The optional interfaces of package driver work as with the driver alone, and one that
// the driver lacks stays absent. A call whose context belongs to no simulation never
// blocks.
//
// # What it does not do
//
// It recognizes writes by the first word of a statement and [driver.Result.RowsAffected].
// It does not detect a SELECT that calls a function that writes. Use a statement of its
// own for the write. It does not recognize a SAVEPOINT outside of BEGIN, which begins a
// transaction in SQLite. It derives the outcome of a failed COMMIT from SQLSTATE and from
// SQLite's codes, and reports unknown for every other error.
//
// It needs a driver with contexts: [driver.ConnBeginTx], [driver.StmtExecContext] and
// [driver.StmtQueryContext]. With an older one, to connect or to prepare a statement
// returns an error. It ignores the interfaces that these replace, and ColumnConverter.
//
// [sql.Conn.Raw] gets the wrapper, whose method Unwrap() driver.Conn returns the driver's
// own connection.
//
//	db := sql.OpenDB(sqlpoint.Wrap(connector))
//	db, err := sqlpoint.Open("sqlite", "file:test.db")
//
// # Where next
//
// Package simulations for the tests that use it, package pgxpoint for pgx.
package sqlpoint
