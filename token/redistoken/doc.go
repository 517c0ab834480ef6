// Package redistoken grants tokens from Redis. Each operation is one script, and so one
// round trip: one grants the lock and mints its number, and one releases the lock and
// hands it to the next waiter.
//
//	iss := &redistoken.Issuer{Client: redis.NewClient(&redis.Options{Addr: "localhost:6379"})}
//	defer iss.Close()
//	locker := lock.Locker{Issuer: iss, Name: "billing", Claim: fence.Admit}
//
// # What it promises
//
//   - While the server keeps its memory, a resource has one holder at a time, and its
//     numbers rise with every grant.
//   - When the server has lost its memory (by a restart without persistence, an eviction,
//     or a FLUSHALL), numbers continue from its clock. They are above the old ones unless
//     that clock was set back.
//   - Waiters are served in the order of arrival, across processes. The script that
//     refuses a caller adds it to the queue, later callers cannot overtake the queue, and
//     a release hands the lock to one waiter and notifies it. If the connection of a
//     waiter's process has ended, the waiter is skipped at once. If the process has died
//     in another way, the waiter loses the lock after a third of its ttl, or after
//     250 ms if that is later. For waiters of one process for one resource, see
//     [Issuer.Wait].
//   - A call returns when its context ends, whatever the client's options are.
//
// # What it does not do
//
// Redis replicates asynchronously. After a failover, the new master may grant a lock that
// is held. If the counter was ahead of the clock, it may also grant a number that was
// granted before. So two holders can have one resource, even with equal numbers. A guard
// distinguishes them by their holders and refuses one of them. [Issuer.Replicas], which
// uses Redis's WAIT, and min-replicas-to-write make that case rarer but do not exclude
// it: WAIT is not consensus, and the promoted replica may be one that did not confirm.
//
// Locks expire by the server's wall clock. If that clock is set forward, locks end early;
// if it is set back, they last longer. The guard keeps writes in order in both cases.
//
// A master that becomes a replica may keep its connections. It then forwards the new
// master's messages to its own subscribers. The new master does not count these
// subscribers, so it also hands the lock to the next waiter. Until the subscription has
// moved, two waiters have a grant of the lock, the first of them until its first renewal.
// Each process checks every three seconds that its subscription is at the publishing
// server, and moves it if not.
//
// If the server loses its memory, the waiters rejoin the queue when they next poll, in
// their old order. Until then, a later caller can be served before them. A waiter that was
// handed the lock and did not receive the notification in time keeps its place.
//
// # How a lock is handed over
//
//	waiter            Redis                                    holder
//	  | wait            |                                        |
//	  |---------------->| held: into the queue, by ticket        |
//	  |<----------------| refused: holder, remaining, time       |
//	  |                 |                                release |
//	  |                 |<---------------------------------------|
//	  |                 | pop the head, mint, SET the lock, then |
//	  |                 | PUBLISH; 0 subscribers: the next head  |
//	  |<----------------| number, time                           |
//
// The lock is set with a short expiry, which its holder's first renewal extends. The
// waiter counts the end of the lease from its own last request: the refusal and the
// notification both contain the server's time, and their difference is the time between
// them. So a late notification never makes an expired lease look alive. If a notification
// is lost, the waiter still gets the lock: each process polls when the lock's remaining
// time has passed and when its subscription is new, and any request for an expired lock
// hands it to the head of the queue.
//
// A process subscribes when its first waiter is refused, once at each server (shard) at
// which it has waiters. It unsubscribes on [Issuer.Close], or a minute after its last
// waiter has left.
//
// # Keys and channels
//
// A resource belongs to one of 256 buckets, the CRC-32 of its name modulo 256.
//
//	<prefix>:{<bucket>}:lock:<resource>     the holder, with its expiry
//	<prefix>:{<bucket>}:counter             the last number, without expiry
//	<prefix>:{<bucket>}:queue:<resource>    the waiters, while there are any
//	<prefix>:handoff:<process>              channel of one process
//	<prefix>:{<bucket>}:handoff:<process>   sharded channel of one process, in a cluster
//
// The bucket is the hash tag. It keeps the keys of one script in one slot of a cluster,
// and bounds the number of counters to 256. A counter must not be deleted. Configure an
// eviction policy that evicts only keys with an expiry, or none.
//
// If another program has overwritten a counter with something that is not a number, its
// bucket grants nothing, and the error contains the key and its value. Delete that key;
// numbers continue from the clock.
//
// A Redis user with an access list needs the keys and channels of the prefix, and the
// commands in the scripts. They include PUBLISH (SPUBLISH in a cluster): without it, a
// release returns an error although the lock was handed over. [Issuer.Locks] also needs
// SCAN. For the rights of a user that only inspects, see docs/locks.md.
//
// # Which servers
//
// Redis 5 or newer, and servers that implement its protocol and run its scripts: a single
// server, or one behind Sentinel. The tests run on Redis 7.0, and ran on 6.0, 8.0 and
// Valkey 8.1 on 2026-11-29. A Cluster needs Redis 7, for sharded channels, and a
// ClusterClient that sends requests to masters only. A redis.Ring is refused: if a server
// is down, it moves keys to a server that does not have their state.
//
// Each call takes a connection of the client's pool. If many goroutines of a process use
// locks at the same time, Client may be the redis.AutoPipeliner of a redis.Client, which
// sends their commands together: see docs/locks.md. An AutoPipeliner of a ClusterClient is
// not supported: it hides that the server is a cluster.
package redistoken

// The files of this package, in reading order:
//
//	issuer.go         the settings; which clients are refused: a Ring, a ClusterClient that reads
//	                  from replicas; the names of channels; Close and Recover
//	acquire.go        Acquire, the first request of Wait, Renew and RenewAll; the names of keys;
//	                  which ttls are refused; the wait for replicas (ErrReplicas); a counter that
//	                  "is not a number"; a lock without an expiry; how many leases one pipeline renews
//	handoff.go        Release, and which waiter of this process is next; a notification:
//	                  granted, ignored, or the lock is released since no caller waits for it
//	wait.go           Wait: when a waiter polls, how it leaves the queue; a server that does not
//	                  reply; which errors end the Wait at once; ErrClosed
//	queue.go          this process's waiters: their order; how many times in a row one process
//	                  may pass the lock on; a late notification; a handed-over lease's end
//	pubsub.go         subscriptions: which refusals are final (NOPERM), reconnects, pings, the
//	                  idle end; a subscription at a server that does not publish any more
//	command.go        how scripts are sent: NOSCRIPT, a caller whose context ends;
//	                  ErrUnreachable; one pipeline for a batch; WAIT on the same connection
//	inspect.go        Inspect and Locks: which names of keys are locks; the masters of a cluster
//	acquire_fast.lua  first part of acquire and wait: a free lock without a queue
//	mint.lua          the next number, from counter and clock; a counter that is not a number; a
//	                  grant never shortens a lease
//	queue.lua         hands the lock to the first waiter whose process is subscribed (PUBLISH);
//	                  adds a waiter to the queue, and its place (ticket)
//	acquire.lua       grants a lock, or returns its holder; waiters come first; the holder
//	                  acquires again
//	wait.lua          a waiter's poll: grants the lock, or keeps the waiter's place in the queue
//	release_fast.lua  first part of release: a lock without a queue
//	release.lua       releases a lock and hands it over; whether this process's turn continues;
//	                  a waiter that leaves
//	renew.lua         extends a lock; never acquires
//	recover.lua       raises a counter, unless it is not lower, or the number is too far ahead
//	inspect.lua       the state of a resource, without a write
//	numsub.lua        counts the subscribers at the master; fails on a replica
