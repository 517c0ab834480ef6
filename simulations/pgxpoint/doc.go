// Package pgxpoint lets a simulation see, and hold up, what a program sends to
// PostgreSQL over pgx, without a change to the program's code.
//
// # What it is
//
// [Tracer] is a tracer of pgx, 5.12 or later. It tells the simulation that a
// call's context is part of:
//
//	begin      before what is sent on a connection that is in no transaction
//	statement  before a statement, batch or COPY inside one
//	commit     before COMMIT, or a batch with one in it
//	applied    when a write is acknowledged, and the caller does not know it yet
//	undone     when a transaction has ended that wrote nothing
//	unknown    when the connection broke behind a COMMIT, or behind a write
//	           outside of a transaction
//
// and the call waits there for as long as the simulation likes. A statement
// outside of a transaction is one by itself. Where a guard of package sqlguard
// has begun the transaction, the guard tells of it, and the tracer adds the
// statements.
//
// # What it promises
//
// It sends nothing and changes nothing. A call whose context is part of no
// simulation is not held up, and costs the look-up of a value.
//
// # What it does not
//
// It goes by what the server says of a statement, its command tag: INSERT,
// UPDATE, DELETE, MERGE, COPY and everything else that is no mere reading have
// written, unless they say 0 rows. A SELECT has not: one that calls a function
// that writes, or whose WITH does, and a CREATE TABLE AS, go unseen. Put the
// write into a statement of its own.
//
// It sees a transaction by its first statement whose context listens. The end
// of one that nobody ended, by closing a connection that is of no pool, it does
// not see; nor what goes around [pgx.Conn], as [pgconn.PgConn] can.
//
//	config.ConnConfig.Tracer = pgxpoint.Tracer{}
//	config.ConnConfig.Tracer = multitracer.New(yours, pgxpoint.Tracer{}) // beside another
//
// # Where next
//
// Package simulations for what is done with it, package sqlpoint for
// database/sql.
package pgxpoint
