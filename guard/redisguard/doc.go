// Package redisguard fences writes to Redis, over go-redis.
//
// # What it is
//
// A [Guard] compares the token in a write's context with the mark of the
// resource, raises the mark, and writes, in one script:
//
//	Set, HSet   admit·write    one command
//	Eval        admit·script   a script of your own
//	Admit       admit          a claim, for token.Locker
//	Mint        mint           a number, for locks that have none
//
// The mark is a key beside the resource: see below.
//
// # What it promises
//
//   - A write whose token is stale, or collides, is never applied; also where
//     its holder was paused between any two steps, for however long.
//   - A write is applied once. go-redis sends a command again after the network
//     has failed, and so applies some twice; a guarded write is not sent again
//     where the server may have had it. That is [guard.ErrUnknown].
//   - A write whose caller has left is not sent any more.
//   - A write has one outcome, which errors.Is finds: see package guard. A
//     replica, a full memory, a failing disk, a missing script and the redirects
//     of a Cluster are none of the unknown ones.
//
// # What it does not
//
// A mark fences what is lost together with it: keys of the same server, under
// the same persistence, which in a Cluster have the mark's slot. There a restart
// without persistence, a FLUSHALL or a failover to an asynchronous replica takes
// the mark back to where it takes the resource. It is no fence
//
//   - for a resource in another place, a row in PostgreSQL say: the mark can be
//     forgotten while the row is remembered, and to admit here and to write
//     there is check-then-act. Use sqlguard;
//   - under a policy that evicts keys without an expiry (maxmemory-policy
//     allkeys-*): it takes the mark and leaves the resource. Use noeviction, or
//     volatile-*.
//
// Replication is asynchronous: a master that was cut off still admits and writes,
// and both are gone when it comes back as a replica. WAIT narrows that.
//
// Redis does not roll back what a script has written before it fails: see
// [Guard.Eval]. A read-modify-write is safe inside one script, or under a token
// that was claimed by [Guard.Admit] before the read. A write that goes around
// the Guard is not fenced, nor is one inside of your own MULTI or pipeline:
// a Guard takes no part in those. What it sends is a pipeline of one command,
// and a hook sees it as that.
//
// # Keys
//
//	fencepost:mark:{<resource>}   "<number> <holder>", a string without expiry
//
// The number is in decimal, without zeros before it, and has fifteen digits at
// most. The mark is never lowered and must not be deleted. Anything else under
// the key admits nobody. Other languages can share it: the scripts beside this
// file are the definition.
//
// # Which servers
//
// Redis 5 or newer and what speaks its protocol and runs its scripts: a single
// server, one behind Sentinel, or a Cluster, spoken to directly. A proxy that
// answers with errors of its own for a server that it has lost would make an
// unknown outcome look like a certain one. A redis.Ring is refused, since it moves
// keys to another server without their marks, and an AutoPipeliner of newer
// go-redis, since it sends again by itself. The user of the connection needs GET,
// SET, SETRANGE, TIME, EVAL and EVALSHA besides what is written.
//
//	g := &redisguard.Guard{Client: client}
//	err := g.Set(ctx, "account/42", "balance:{account/42}", 58, 0)
//	if errors.Is(err, guard.ErrStale) {
//		return err // the lock has passed on: nothing was written
//	}
//
// # Where next
//
// [Guard.Set] for the outcomes, [Guard.Eval] for scripts, [MarkKey] for slots,
// package token for where tokens come from, sqlguard for what is in PostgreSQL.
package redisguard
