// Package sqlpoint lets a simulation see, and hold up, what a program sends to a
// database over database/sql, without a change to the program's code.
//
// # What it is
//
// [Wrap] and [Open] put a driver around a driver. It tells the simulation that a
// call's context is part of:
//
//	begin      before a transaction begins, and before a statement outside of one
//	statement  before a statement inside one
//	commit     before COMMIT
//	applied    when a write is acknowledged, and the caller does not know it yet
//	undone     when a transaction has ended that wrote nothing
//	unknown    when a COMMIT, or a write outside of a transaction, failed in a way
//	           that leaves it open
//
// and the call waits there for as long as the simulation likes. Commit and
// Rollback belong to the context of BeginTx, or of the last statement whose
// context listened. BEGIN, COMMIT and ROLLBACK as statements are seen too. Where
// a guard of package stdsql has begun the transaction, the guard tells of it,
// and the driver adds the statements.
//
// # What it promises
//
// Every optional interface of package driver works as with the driver alone,
// also those that it does not have. A call whose context is part of no
// simulation is not held up.
//
// # What it does not
//
// It goes by the first word of a statement and by [driver.Result.RowsAffected]:
// a SELECT that calls a function that writes goes unseen. Put the write into a
// statement of its own. A SAVEPOINT outside of BEGIN, which begins a transaction
// in SQLite, is not taken for one. What a failed COMMIT came to it knows from SQLSTATE and
// from SQLite's codes; of other errors it says unknown.
//
// [sql.Conn.Raw] gets the wrapper; its method Unwrap() driver.Conn returns what
// the driver made.
//
//	db := sql.OpenDB(sqlpoint.Wrap(connector))
//	db, err := sqlpoint.Open("sqlite", "file:test.db")
//
// # Where next
//
// Package simulations for what is done with it, package pgxpoint for pgx.
package sqlpoint
