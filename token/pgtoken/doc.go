// Package pgtoken grants tokens from PostgreSQL. Each resource has a row with its holder.
// A number is minted while that row is locked.
//
//	iss := &pgtoken.Issuer{DB: pool} // a *pgxpool.Pool
//	locker := lock.Locker{Issuer: iss, Name: "billing", Claim: fence.Admit}
//
// The functions that the package calls are created by package migrations, which must run
// first.
//
// # What it promises
//
//   - A resource has one holder at a time. Its numbers rise with every grant, and are at
//     or above the server's clock in units of 10 µs.
//   - A number is returned only after a transaction that wrote a row with it has been
//     flushed to disk, whatever the session's synchronous_commit is. So a crash of the
//     server cannot make it grant that number again.
//   - Each call is one statement in one packet, once the connection has prepared it. An
//     acquisition and its release take two round trips. All renewals that are due
//     together take one.
//   - Waiters are served in the order of arrival. They are rows of a table, and later
//     callers cannot overtake them, even while the resource is free for a moment. A
//     release hands the resource to the head of the queue, under a new number, and
//     notifies only that waiter.
//
// # Waiting
//
//	Wait ──refused──▶ a row in the queue ◀──head──  Release of the holder
//	  ▲                                              │ new number, lease of a third of the ttl, commit
//	  └───────────────── NOTIFY, to this process ◀───┘
//
// While there are waiters, an Issuer keeps one connection of its pool for the
// notifications of all its waiters. It closes that connection after a minute without
// waiters: see [Issuer.Close]. The connection's session holds an advisory lock, by which
// other processes detect that it is alive; they skip the waiters of a process that is
// not. If the connection breaks but the process is alive, its waiters poll again with the
// next connection and keep their places. If a holder dies, the head of the queue is
// granted the resource when the ttl has ended, whichever waiter polls first.
//
// A lease that was handed over counts from the waiter's last poll that the server
// answered, by the server's clock. It does not count from the receipt of the
// notification, which may have been delayed.
//
// # What it does not do
//
// If an asynchronous standby is promoted, it may lack the last grants and grant a held
// resource again. Its clock keeps the numbers rising. If a number is too low, a guard
// refuses it, and [Issuer.Recover] raises the issuer. Leases end by the server's clock:
// if it is set forward, they end early.
//
// A standby is [token.ErrUnreachable], so that a bounded wait survives a failover. Name
// all hosts in the connection string, with target_session_attrs=read-write.
//
// A release that hands nothing over does not wait for the disk. If a crash undoes it, the
// resource is free when its ttl has passed.
//
// # Claiming
//
// If the guard's marks are in the same schema, as those of package sqlguard are by
// default, [Issuer.Claims] raises the mark in the statement that grants. It never waits
// for an admitted writer's transaction. The Locker's Claim is still called;
// [Issuer.Claims] describes which Claim then sends nothing.
//
// # Connections
//
// If the application uses all connections of the pool, a renewal waits for one for a
// quarter of its time, at most 250 ms. Then it uses a connection outside of the pool, with
// the pool's settings and hooks, so that a pool of one is enough. That connection closes
// after a minute without such renewals. Other calls wait for the pool. An Issuer has at
// most six connections more than the pool: one for the notifications, one for renewals, and
// one for each of four leases at a time whose rows other transactions have locked.
//
// All modes of pgx work, including the simple protocol. The mode that describes before
// each query takes one more round trip. Behind PgBouncer before 1.21, pgx's default mode,
// which caches prepared statements, does not work: set default_query_exec_mode to another
// mode.
//
// A client behind a pooler cannot receive notifications. The Issuer detects a pooler: the
// process id of the session differs from the one reported when it connected. Its waiters
// then poll, in the same queue, and each poll keeps their place: see [Issuer.Poll].
//
// For a lock that ends with its connection, mint under an advisory lock: see docs/adopt.md.
package pgtoken

// The files of this package, in reading order:
//
//	issuer.go    the settings; Acquire, Release, Recover, Close; which ttls are refused
//	wait.go      one waiter: when it polls; a poll after its context has ended; how it leaves
//	             the queue; a notification that comes too late; the error of Wait
//	queue.go     this process's waiters: whether they poll or are notified; when the listener
//	             starts and stops; a notification for a waiter that has left
//	listener.go  the connection for notifications: LISTEN, pings, reconnects, the idle end; a
//	             pooler is detected ("connected to a pooler")
//	renew.go     Renew and RenewAll; a lease whose row is locked by another transaction; when a
//	             lease ends by this process's clock
//	spare.go     how long a renewal waits for the pool; the connections outside of it
//	command.go   which DBs are refused ("DB is a transaction"); whether BEGIN and COMMIT are
//	             sent around a statement (isolation level, read-only session, exec mode)
//	transact.go  BEGIN, a statement and COMMIT in one packet; a standby ("was sent to a
//	             standby"); which errors are ErrExhausted and ErrUnreachable
//	inspect.go   Inspect and Locks: which locks are listed, in pages
//	reply.go     the server's reply and the notification, parsed ("unexpected reply"); from when
//	             a lease that was handed over counts; which marks a grant has raised
//	state.sql    the state of leases and of their waiters
//	*.sql        the others: one call each of a function in migrations/postgres:
//	             00005_leases.sql, 00006_queue.sql (the queue that all processes share)
