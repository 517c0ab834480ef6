// Package redistoken grants tokens from Redis: one script per verb, so that
// one round trip grants the lock and mints its number.
//
//	iss := &redistoken.Issuer{Client: redis.NewClient(&redis.Options{Addr: "localhost:6379"})}
//	locker := token.Locker{Issuer: iss, Name: "billing"}
//
// # What it promises
//
//   - While the server keeps its memory, one holder at a time, and numbers that
//     rise with every grant of a resource.
//   - When the server has lost its memory (a restart without persistence, an
//     eviction, a FLUSHALL), numbers go on from its clock, above the old ones
//     as long as that clock does not run back.
//   - A call ends when its context does, whatever the client's options say.
//
// # What it does not
//
// Redis replicates asynchronously. After a failover the new master may grant
// a lock that is held, and if the counter was ahead of the clock, with a
// number that was given out before. WAIT and min-replicas-to-write narrow that
// window and do not close it. Two holders can thus have one resource, even
// with equal numbers: a guard tells them apart by their holders and refuses
// one of them. Locks expire by the server's wall clock: one that jumps ahead
// drops every lock at once. What keeps writes in order is the guard, not the
// lock.
//
// # Keys
//
// A resource belongs to one of 256 buckets, the CRC-32 of its name modulo 256.
//
//	<prefix>:{<bucket>}:lock:<resource>   the holder, with its expiry
//	<prefix>:{<bucket>}:counter           the last number, without expiry
//
// The bucket is the hash tag of both, which keeps them in one slot of a
// cluster; and there are never more than 256 counters. A counter must not be
// deleted. Give the server a policy that evicts only keys with an expiry, or
// none.
//
// # Which servers
//
// Redis 5 or newer and what speaks its protocol and runs its scripts: a single
// server, one behind Sentinel, or a Cluster. A redis.Ring is refused: it moves
// keys to another server, without what that should know, when one is down.
package redistoken
