// Package pgtoken grants tokens from PostgreSQL: a row per resource says who
// has it, and the number is drawn while that row is locked.
//
//	iss := &pgtoken.Issuer{DB: pool} // a *pgxpool.Pool
//	locker := token.Locker{Issuer: iss, Name: "billing"}
//
// The functions that do the work come from package migrations, which must have
// run before.
//
// # What it promises
//
//   - One holder at a time, and numbers that rise with every grant of a
//     resource, at or above the server's clock in units of 10 µs.
//   - A number leaves in a transaction of its own that wrote a row and waited
//     for the disk, whatever synchronous_commit says in the session: no crash
//     of the server brings it back.
//   - Acquire, Renew and Release are one round trip each, BEGIN and COMMIT
//     included, once the connection has prepared its statements.
//
// # What it does not
//
// An asynchronous standby that is promoted has not seen the last grants: it may
// give a held resource away. Its clock keeps the numbers rising; a guard
// refuses what goes wrong all the same. Leases end by the server's clock: one
// that is set forward ends them early.
//
// A release does not wait for the disk: a crash may undo it, and the resource
// is free again when its ttl has passed.
//
// # Connections
//
// All modes of pgx do, the simple protocol among them; the mode that describes
// before each query takes one more round trip. Behind PgBouncer before 1.21
// pgx's default mode, which caches prepared statements, does not work: set
// default_query_exec_mode to another one.
package pgtoken
