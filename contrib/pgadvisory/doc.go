// Package pgadvisory grants tokens from PostgreSQL advisory locks. Each lease has its own
// connection, and the lock ends with that connection. PostgreSQL keeps the queue of
// waiters. When a holder's process or session ends, it grants the lock to the next waiter
// at once. The number comes from a durable row, as in package pgtoken.
//
//	iss := &pgadvisory.Issuer{Pool: pool} // a *pgxpool.Pool of its own
//	locker := lock.Locker{Issuer: iss, Name: "billing", Claim: fence.Admit}
//
// The functions that the package calls are created by package migrations, which must run
// first.
//
// # The ttl
//
// An advisory lock has no expiry of its own. The package therefore sets the session's
// idle_session_timeout to the ttl: the server ends the session, and with it the lock, one
// ttl after the last renewal it received. The server counts from its reply, and Until
// counts from before the request was sent, so a lock that times out becomes free after
// Until. At Until, this process ends the session too.
//
// If anything ends the session earlier, the lock is free before Until, without notice to
// the holder. Causes are a broken connection, pg_terminate_backend, a restart, and a
// failover. The next renewal returns [token.ErrLost]. Until then, only a guard keeps the
// old holder's writes apart from the new holder's.
//
// # What it needs
//
// PostgreSQL 14, for idle_session_timeout. A direct connection to the server: a pooler,
// in any mode, is detected by the process id of the session and refused. A connection of
// Pool for each lease and each waiter: if Pool has reached its MaxConns, Acquire waits
// for one. Give locks a pool of their own. If the program's queries use the same pool,
// all of its connections can wait for each other.
//
// A waiter's session waits inside a transaction, which keeps vacuum from removing rows
// that were deleted since it began. For waits of hours, package pgtoken is better. If the
// process ends, the lock does too, whatever
// [github.com/fencepost/fencepost/lock.Locker.HoldAtLeast] is.
//
// Use pgadvisory or pgtoken for a resource, not both: their locks do not exclude each
// other, although their numbers compare.
//
// # Connections after an error
//
// A connection is returned to Pool only when the server has confirmed the release. After
// an error, or if a context ended the call, it is closed. If it were returned with the
// lock, its next user would have the lock too.
package pgadvisory
