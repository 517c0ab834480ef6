// Package redistoken grants tokens from Redis: one script per verb, so that
// one round trip grants the lock and mints its number, and one gives it back,
// to who waits for it.
//
//	iss := &redistoken.Issuer{Client: redis.NewClient(&redis.Options{Addr: "localhost:6379"})}
//	defer iss.Close()
//	locker := token.Locker{Issuer: iss, Name: "billing"}
//
// # What it promises
//
//   - While the server keeps its memory, one holder at a time, and numbers that
//     rise with every grant of a resource.
//   - When the server has lost its memory (a restart without persistence, an
//     eviction, a FLUSHALL), numbers go on from its clock, above the old ones
//     as long as that clock does not run back.
//   - First come, first served, across processes: who is refused stands in line
//     by the same script that refused it, nobody passes the line, and a release
//     wakes one waiter, which has the lock already. A waiter whose process has
//     died is passed over at once where its connection has ended, and else
//     after a third of its ttl, 250 ms at least. Waiters of one process for one
//     resource take turns in it: see [Issuer.Wait].
//   - A call ends when its context does, whatever the client's options say.
//
// # What it does not
//
// Redis replicates asynchronously. After a failover the new master may grant
// a lock that is held, and if the counter was ahead of the clock, with a
// number that was given out before. [Issuer.Replicas], which is Redis's WAIT,
// and min-replicas-to-write narrow that window and do not close it: WAIT is no
// consensus, and the replica that is promoted may be one that was not asked.
// Two holders can thus have one resource, even with equal numbers: a guard tells
// them apart by their holders and refuses one of them. Locks expire by the
// server's wall clock: one that jumps ahead drops every lock at once, and one
// that jumps back pins them. What keeps writes in order is the guard, not the
// lock.
//
// A master that is made a replica without ending its connections goes on to pass
// on what the new one publishes to waiters there, where it counts for nobody:
// the lock goes to the next as well. Each process asks every three seconds where
// its subscription is, and moves it; until then two are told that they hold it,
// the first of them until its first renewal.
//
// The order in which waiters are served is that in which the server has seen
// them, as long as it keeps its memory; one that was given the lock and did not
// hear of it in time keeps its place.
//
// # How a lock is handed over
//
//	waiter            Redis                                    holder
//	  | wait            |                                        |
//	  |---------------->| held: into the line, by ticket         |
//	  |<----------------| refused: holder, remaining, time       |
//	  |                 |                                release |
//	  |                 |<---------------------------------------|
//	  |                 | head out of the line, mint, SET lock,  |
//	  |                 | and last PUBLISH; 0 heard it: the next |
//	  |<----------------| number, time                           |
//
// The lock is set for a short time only, which its holder's first renewal makes
// whole. When it ends is counted from the waiter's own last request: the message
// says when, by the server's clock, the lock was handed over, and the refusal
// what that clock said then. So a message that was under way for long grants
// nothing that is over. One that is lost is made up for: each process asks again
// when the refusing lock's time is up, and whenever its subscription is new;
// and whoever comes by a lock whose time is up hands it to the head first.
//
// A process subscribes when a waiter of its is first refused, once at each
// server (shard) where it waits, and ends that with [Issuer.Close], or a minute
// after the last waiter has left.
//
// # Keys and channels
//
// A resource belongs to one of 256 buckets, the CRC-32 of its name modulo 256.
//
//	<prefix>:{<bucket>}:lock:<resource>   the holder, with its expiry
//	<prefix>:{<bucket>}:counter           the last number, without expiry
//	<prefix>:{<bucket>}:line:<resource>   who waits, while somebody does
//	<prefix>:inbox:<process>              channel of one process
//	<prefix>:{<bucket>}:inbox:<process>   sharded channel of one, in a cluster
//
// The bucket is the hash tag, which keeps what a script touches in one slot of
// a cluster; and there are never more than 256 counters. A counter must not be
// deleted. Give the server a policy that evicts only keys with an expiry, or
// none. A user with an access list needs the keys and channels of the prefix,
// and the commands that the scripts name: PUBLISH (SPUBLISH in a cluster) too,
// without which a release fails although the lock has passed on.
//
// # Which servers
//
// Redis 5 or newer and what speaks its protocol and runs its scripts: a single
// server, or one behind Sentinel. A Cluster needs Redis 7, for sharded channels,
// and a ClusterClient that asks masters only. A redis.Ring is refused: it moves
// keys to another server, without what that should know, when one is down.
//
// Calls that run at the same time share connections and packets; a hook of the
// client may then see a pipeline of several callers under the first one's
// context.
package redistoken
