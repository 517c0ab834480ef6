// Package redisguard fences writes to Redis that are made with go-redis.
//
// # What it is
//
// A [Guard] runs one Lua script for each write. The script compares the token in the
// context with the mark of the resource, raises the mark, and writes:
//
//	Set, HSet    admit and write one command
//	TxPipelined  admit and write a pipeline
//	Eval         admit and run a script of your own
//	Once         as Eval, and record the unit of work: a repeat returns the first result
//	Admit        admit only: a claim, for lock.Locker
//	Mint         issue a number, for locks that have none
//
// The mark is a key on the same server: see Keys below.
//
// # What it promises
//
//   - A write whose token is stale, or collides, is never applied, even if its holder was
//     paused between any two steps, for any time.
//   - A write is applied at most once. go-redis retries a command after a network error
//     and can apply it twice. A guarded write is not retried if the server may have
//     received it; the error is then [guard.ErrUnknown].
//   - A write is not sent after its caller has returned.
//   - A write has one outcome, which errors.Is finds: see package guard. Errors of a
//     replica, a full memory, a failing disk, a missing script and a Cluster's redirects
//     are never ErrUnknown.
//
// # What it does not do
//
// A mark fences only data that is lost together with it: keys of the same server, with
// the same persistence, and in a Cluster of the mark's slot. A restart without
// persistence, a FLUSHALL, or a failover to an asynchronous replica resets these keys and
// the mark to the same point. A Guard is no fence
//
//   - for a resource in another system, such as a row in PostgreSQL. Redis can lose the
//     mark while the row remains, and admitting here and writing there is
//     check-then-act. Use sqlguard.
//   - under a policy that evicts keys without an expiry (maxmemory-policy allkeys-*),
//     which can evict the mark and keep the resource. Use noeviction or volatile-*. Once
//     needs noeviction: its records have an expiry.
//
// Replication is asynchronous. A master in a network partition still admits and writes,
// and loses both when it rejoins as a replica. WAIT narrows that window.
//
// Redis does not roll back what a script has written before it fails: see [Guard.Eval].
// A read-modify-write is safe inside one script, or under a token that was claimed by
// [Guard.Admit], or minted, before the read. A write that bypasses the Guard is not fenced. A Guard
// does not take part in your own MULTI or pipeline: it sends a pipeline of one command,
// which is what a go-redis hook sees. [Guard.TxPipelined] has a pipeline of its own.
//
// # Keys
//
//	fencepost:mark:{<resource>}   "<number> <holder>", a string without expiry
//	fencepost:once:<unit>:<mark>  a unit of Once, with an expiry; <unit> is a hash of its
//	                              Key, <mark> the mark's key
//
// The number is in decimal, without leading zeros, and has at most 15 digits. The mark is
// never lowered and must not be deleted. If the key holds anything else, every write and
// claim of the resource fails. Programs in other languages can share the mark; the Lua
// scripts in this package define it.
//
// # Which servers
//
// Redis 5 or newer, and compatible servers that run its scripts: a single server, one
// behind Sentinel, or a Cluster, connected directly. The tests run on Redis 7.0, and ran
// on 6.0, 8.0 and Valkey 8.1 on 2026-11-29. A proxy that replies with its own
// errors when it has lost a server would make an unknown outcome look certain. Two
// clients are refused: a redis.Ring, because it moves keys to another server without
// their marks, and an AutoPipeliner of newer go-redis, because it retries. The user of
// the connection needs GET, SET, SETRANGE, TIME, EVAL and EVALSHA, and the commands that
// are guarded.
//
//	g := &redisguard.Guard{Client: client}
//	err := g.Set(ctx, "account/42", "balance:{account/42}", 58, 0)
//	if errors.Is(err, guard.ErrStale) {
//		return err // another holder has the lock: nothing was written
//	}
//
// # Where next
//
// [Guard.Set] for the outcomes, [Guard.Eval] for scripts, [MarkKey] for slots, package
// token for the origin of tokens, sqlguard for data in PostgreSQL.
package redisguard

// The files of this package, in reading order:
//
//	guard.go      the settings; the mark's key, and its slot in a Cluster; which clients are
//	              refused: a Ring, an AutoPipeliner; when two Guards have the same marks
//	command.go    Set, HSet, and Eval of the caller's own script; a script with a shebang is
//	              refused; a script that fails half-way: ErrUnknown
//	pipeline.go   TxPipelined: what it refuses to queue, the keys of a command, the reply of each
//	              in its own type
//	once.go       Once: a unit of work, its key, its retention; a script that fails is recorded
//	write.go      one write: a second attempt by the client is refused ("not sent again"), and
//	              one after the caller has returned; which outcomes are unknown
//	admit.go      the claim (Admit), and a number for a lock that has none (Mint): scripts that
//	              may run twice
//	script.go     how the scripts are put together; the reply of a script; "holds no mark";
//	              which error replies are ErrRetryable (BUSY, TRYAGAIN)
//	simulated.go  the switch for simulations: the steps of a write and of a claim, the unguarded
//	              twin, a reply that is dropped
//	mark.lua      first part of every script: reads the mark; what is no mark (corrupt)
//	admit.lua     after mark.lua: compares the token with the mark, refuses or raises;
//	              report-only mode; what a replica or a full memory returns
//	write.lua     after admit.lua: runs the write; an error anywhere in its result
//	unit.lua      before admit.lua, for Once: the first result of a unit, or another fingerprint
//	record.lua    after write.lua, for Once: records the unit before the write, and then its
//	              result, in the guard's database; a result that is too long or too deep
//	command.lua   the write of Set and HSet: one command
//	pipeline.lua  the write of TxPipelined: each command in turn; the others run if one fails
//	admitted.lua  after admit.lua: a claim has nothing to write
//	mint.lua      after mark.lua: a number above the mark, and at least the clock; no number is
//	              left
