// Package redisquorum grants tokens from three or more independent Redis servers, by
// majority. It is the Redlock algorithm with numbers.
//
//	iss := &redisquorum.Issuer{Nodes: map[string]redis.UniversalClient{"a": one, "b": two, "c": three}}
//	err := iss.Bootstrap(ctx) // once, by an operator, when the servers are new
//	locker := lock.Locker{Issuer: iss, Name: "billing", Claim: fence.Admit}
//
// # How it works
//
//	            a b c
//	1  lock     ● ● ○   a majority locks, and returns its counters and clocks
//	   mint             above the highest counter, and no less than the clock
//	2  write    ● ● ·   a majority that is still locked stores the number
//	   use              until ttl after the first request was sent, less the clock drift
//
// Every later majority contains a server that has the number. Without round 2, numbers
// would repeat. They would also repeat if a server stored a number while another holder
// had the lock there.
//
// Numbers would also repeat if one server lost its memory and continued to vote. So each
// member of the quorum has a marker. A server is unrecovered if it has no marker, or a
// marker from an earlier run of the server. It then does not grant and does not vote. It
// recovers when the longest ttl has passed since its loss was first recorded on it: the
// highest counters of as many other nodes as form a majority are written to it, with the
// marker. Programs do that in the background; see [Issuer.Rejoin]. The package's tests
// search every state of a model of this protocol, and show that each of its parts is
// needed.
//
// Acquire takes two round trips, Renew and Release take one. Each goes to all nodes at
// once. Waiters poll: there is no queue, and no order among waiters. If concurrent
// callers split the votes, they withdraw and retry at different times.
//
// # What it promises
//
//   - While a majority is up and keeps its memory, a resource has one holder at a time,
//     and its numbers rise with every grant. A minority may be down, hang, be cut off,
//     restart, be flushed, or evict the marker. It may be any minority, and all nodes one
//     after the other.
//   - If a majority is down, Acquire returns ErrNoMajority and no grant. If a majority
//     has lost its memory, there is no grant until an operator permits it: see
//     [Issuer.Bootstrap].
//   - A lease that is renewed outlasts a restart of every server, one after the other.
//
// # What it assumes
//
//   - The nodes are independent: not replicas of each other, not databases of one
//     server, not on one machine or one disk.
//   - Their clocks and this process's clock run at rates that differ by at most one
//     percent, and no node's clock is set forward: Redis ends locks by the wall clock,
//     and measures by it how long a node has been unrecovered.
//   - A name belongs to one server at a time. If two servers had the same name, and each
//     were reached by some programs only, there would be two quorums.
//   - No other program changes the keys. If a server evicts a counter or a lock but keeps
//     the marker, its replies are wrong, and that is not detected. Use maxmemory-policy
//     noeviction.
//   - With Durable, each node writes every change to its disk before it replies. Without
//     Durable, the data on a node's disk does not matter.
//
// # What it does not do
//
// The lock alone does not make writes safe. A process can be paused for longer than the
// ttl after it has checked its lease, and a clock can be set. Martin Kleppmann describes
// this for Redlock, and that it lacks a number that the resource checks
// (https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html). This
// package adds the number; the guard that checks it makes writes safe. While clocks run
// as assumed, a resource has one holder at a time. If they do not, it may have two; their
// holder ids always differ, and their numbers in most cases.
//
// Compared with package redistoken, it survives the loss of a server without waiting for
// it. It takes three round trips instead of two, and three servers.
//
// # Keys
//
//	<prefix>:quorum:member             on each node, its marker
//	<prefix>:quorum:unrecovered        instead of the marker, the note of when the loss was recorded
//	<prefix>:quorum:lock:<resource>    the attempt's id and the holder, with an expiry
//	<prefix>:quorum:counter:<bucket>   the last number, without expiry
//
// A bucket is the CRC-32 of the resource modulo 256, as in package redistoken.
//
// # Which servers
//
// Redis 5 or newer, or Valkey: single servers, whose users may run INFO in scripts. A
// Cluster and a Ring are refused. A server behind Sentinel may be a node, but not with
// Durable: a failover is detected as a loss of memory.
package redisquorum

// The files of this package, in reading order:
//
//	issuer.go      the settings; which nodes are refused; the names of keys; which ttls are
//	               refused; the clock drift; how long a node that lost its memory does not vote
//	acquire.go     Acquire: both rounds, the number between them, a split vote, the retry, the
//	               withdrawal of what a minority granted; the holder in a HeldError
//	renew.go       Renew, RenewAll, Release: what a majority must reply; a node that has
//	               forgotten a lease locks it again
//	recover.go     the numbers are raised above a guard's mark (Recover); a node that lost its
//	               memory becomes a member again (Rejoin, and in the background)
//	inspect.go     Inspect and Locks: what a majority has; when that cannot be told
//	bootstrap.go   the nodes become a quorum, or restore one that lost its majority: "there is a
//	               quorum", "are one server", "leases may be alive for another"
//	config.go      a member's marker; the config of a majority; "it is in a quorum of": other
//	               nodes, names or MaxTTL
//	request.go     a request to all nodes: when the replies decide, how long slow nodes are
//	               waited for; a node that hangs gets no request
//	error.go       ErrNoMajority, with a reason for each node; when it is ErrUnreachable too;
//	               "it has lost its memory"
//	script.go      the scripts and their parts; a reply, parsed ("unexpected reply"); a counter
//	               that "is not a number"
//	member.lua     first part of most scripts: is the server a member, of this quorum, in this
//	               run (unrecovered, mismatch)
//	acquire.lua    round 1: locks, returns the counter; which older attempt is refused
//	write.lua      round 2: stores the number if the attempt still has the lock
//	withdraw.lua   removes the lock of one attempt
//	renew.lua      extends locks; returns 0 for another holder's lock, -1 for a free one
//	release.lua    releases a lock
//	counters.lua   returns counters and the clock, for Recover and Rejoin
//	recover.lua    raises a counter
//	inspect.lua    returns a lock's holder, time and counter; writes nothing
//	rejoin.lua     makes an unrecovered server a member again, with the counters of others
//	bootstrap.lua  inspects a server (member, unrecovered, fresh), or makes it a member
//	retract.lua    removes the marker of a quorum that was not created
