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
//   - Each call is one statement in one packet, once the connection has prepared
//     it: an acquisition and its release are two round trips, and however many
//     renewals fall due together are one.
//   - First come, first served. Who waits stands in a table, and nobody passes
//     the line, not even in a moment in which the resource is free. A release
//     hands the resource to the head of the line, under a new number, and
//     notifies that one waiter; the others hear nothing and send nothing.
//
// # Waiting
//
//	Wait ──refused──▶ a row in the line ◀──head──  Release of the holder
//	  ▲                                             │ new number, lease of a third of the ttl, commit
//	  └───────────────── NOTIFY, to this process ◀──┘
//
// While somebody waits, an Issuer keeps one connection of its pool for the
// notifications of all its waiters, and gives it up when nobody has waited for
// a minute: see [Issuer.Close]. That session holds an advisory lock, by which
// others see that it lives: a waiter whose process is gone is passed over. Where
// only the connection is gone, the waiters ask again through the next one, and
// keep their places. A holder that dies is followed when its ttl is over, by
// the head of the line, whoever it is that looks first.
//
// A lease that was handed over counts from the last question of its waiter that
// the server had answered, on the server's clock, never from when the
// notification arrived: that may have been under way for long.
//
// # What it does not
//
// An asynchronous standby that is promoted has not seen the last grants: it may
// give a held resource away. Its clock keeps the numbers rising; a guard
// refuses what goes wrong all the same, and Raise heals. Leases end by the
// server's clock: one that is set forward ends them early.
//
// A release that hands nothing over does not wait for the disk: a crash may undo
// it, and the resource is free again when its ttl has passed.
//
// # Claiming
//
// Where the guard's marks are in the same schema, as those of package sqlguard
// are by default, [Issuer.Claims] raises the mark in the statement that grants.
// It never waits for who is admitted still.
//
// # Connections
//
// All modes of pgx do, the simple protocol among them; the mode that describes
// before each query takes one more round trip. Behind PgBouncer before 1.21
// pgx's default mode, which caches prepared statements, does not work: set
// default_query_exec_mode to another one. Behind a pooler no session can be
// notified. The Issuer sees that the server's process is not the one it was
// told of when it connected; waiters then ask again and again, in the same line,
// and each question is a sign of life: see [Issuer.Poll].
package pgtoken
