// Package redisquorum grants tokens from three or more independent Redis
// servers, by majority: the shape of Redlock, with numbers.
//
//	iss := &redisquorum.Issuer{Nodes: map[string]redis.UniversalClient{"a": one, "b": two, "c": three}}
//	err := iss.Bootstrap(ctx) // once, by hand, when the servers are new
//	locker := token.Locker{Issuer: iss, Name: "billing"}
//
// # How
//
//	            a b c
//	1  lock     ● ● ○   a majority locks, and tells its counters and clocks
//	   mint             above the greatest counter, and no less than the clock
//	2  write    ● ● ·   a majority that is locked still keeps the number
//	   use              until ttl after the first was sent, less what clocks drift
//
// Of any later majority one server knows the number. Without the second round,
// or where it writes past another's lock, numbers repeat. So they do when one
// server loses its memory and votes on, of three as of five. So each member of
// the quorum has a marker; without it, or with one that an earlier run of the
// server wrote, a server is blank: it neither grants nor counts. It recovers when
// the longest ttl has passed since that was first noted on it: then the greatest
// counters of a majority of all, itself not among them, are written to it, and
// the marker. Programs do that in passing; see [Issuer.Recover]. All of this was
// searched through, world by world, for what could go wrong, and each of its
// parts was found to be needed: the package's tests do it again.
//
// Acquire takes two round trips, Renew and Release one, each of them to all nodes
// at once. Who waits asks again: there is no line to stand in, and no order among
// those who wait. Those who ask at once and split the votes among them withdraw,
// and try again at different times.
//
// # What it promises
//
//   - One holder at a time, and numbers that rise with every grant of a
//     resource, while a majority is up and keeps its memory. A minority may be
//     down, hang, be cut off, restart, be flushed, or evict the marker: any
//     minority, one after the other all of them.
//   - Where a majority is down, ErrNoMajority and no grant. Where a majority has
//     lost its memory no grant either, until an operator says so: see
//     [Issuer.Bootstrap].
//   - A lease that is renewed outlives the restart of every server, one after the
//     other.
//
// # What it assumes
//
//   - The nodes are independent: not replicas of each other, not databases of one
//     server, not on one machine or one disk.
//   - Their clocks and this process's run at rates that differ by no more than one
//     percent, and no node's clock jumps ahead: Redis lets locks end by the wall
//     clock, and the time for which a node stays blank is measured by it too.
//   - A name is one server at a time. A second one under the same name, which some
//     programs reach and others do not, makes two quorums of one.
//   - Nobody else touches the keys. A server that evicts its marker is blank; one
//     that evicts a counter or a lock and keeps the marker is wrong, and nobody
//     notices. Use maxmemory-policy noeviction.
//   - With Durable, each node has synced every write to its disk before it answers.
//     Without, it may have on disk what it likes.
//
// # What it does not
//
// It does not make the lock safe to rely on. A process can be stopped after it
// looked at its lease, for longer than the ttl; a clock can jump. Martin Kleppmann
// (https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html) said
// so of Redlock, and that what is missing is a number that the resource checks:
// this package adds the number, and the guard that checks it stays the guarantee.
// Where clocks keep the assumptions, two never hold at once; where they break
// them two may, and their numbers still differ in most cases, and their holders
// always.
//
// It outlives a server, where package redistoken waits for it; for that it takes
// three round trips where that takes two, and three servers.
//
// # Keys
//
//	<prefix>:quorum:member             on each node, what it is a member of
//	<prefix>:quorum:blank              in its place, since when it is blank
//	<prefix>:quorum:lock:<resource>    the ballot and its holder, with their expiry
//	<prefix>:quorum:counter:<bucket>   the last number, without expiry
//
// A bucket is the CRC-32 of the resource modulo 256, as in package redistoken.
//
// # Which servers
//
// Redis 5 or newer, or Valkey: single servers, whose users may run INFO in scripts.
// A Cluster and a Ring are refused. What stands behind Sentinel may be a node, but
// not with Durable: a failover is a loss of memory, and is noticed as one.
package redisquorum
