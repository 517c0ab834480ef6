// Package pgxpoint lets a simulation observe, and stop, what a program sends to PostgreSQL
// with pgx. The program's code does not change.
//
// # What it is
//
// [Tracer] is a tracer for pgx 5.12 or later. It reports these steps to the simulation that
// a call's context belongs to, and the call blocks until the simulation lets it continue:
//
//	begin      before anything is sent on a connection that is in no transaction
//	statement  before a statement, batch or COPY inside a transaction
//	commit     before COMMIT, or before a batch that contains one
//	applied    when a write was acknowledged, before the caller gets the reply
//	undone     when a transaction has ended without a write
//	unknown    when the connection broke after a COMMIT, or after a write outside of a
//	           transaction
//
// A statement outside of a transaction counts as a transaction. If a guard of package
// sqlguard has begun the transaction, the guard reports its steps, and the tracer adds
// the statements.
//
// # What it promises
//
// It sends nothing and changes nothing, with one exception: if the simulation drops the
// reply to a COMMIT, or to a write outside of a transaction, the connection fails after
// the write was sent. The caller gets that error once the server has ended the session.
// A call whose context belongs to no simulation never blocks, and costs one lookup of a
// context value.
//
// # What it does not do
//
// It recognizes writes by the server's command tag: INSERT, UPDATE, DELETE, MERGE, COPY
// and all other statements that do more than read, unless the tag reports 0 rows. It does
// not detect a write in a SELECT (by a function, or in WITH), nor in CREATE TABLE AS. Use a
// statement of its own for the write.
//
// It does not drop the reply to a COPY outside of a transaction, nor to a batch that
// commits, unless the connection's mode is [pgx.QueryExecModeExec] or
// [pgx.QueryExecModeSimpleProtocol]: pgx reads other replies first.
//
// It detects a transaction at its first statement whose context belongs to a simulation.
// It does not detect the end of a transaction that ends because a connection without a
// pool is closed, nor anything sent without [pgx.Conn], such as by [pgconn.PgConn].
//
//	config.ConnConfig.Tracer = pgxpoint.Tracer{}
//	config.ConnConfig.Tracer = multitracer.New(yours, pgxpoint.Tracer{}) // with another tracer
//
// # Where next
//
// Package simulations for the tests that use it, package sqlpoint for database/sql.
package pgxpoint
