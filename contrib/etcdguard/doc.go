// Package etcdguard fences writes to etcd that are made with clientv3. It is a separate
// module, so that only its users depend on etcd's client.
//
//	g := &etcdguard.Guard{Client: client}
//	_, err := g.Txn(ctx, "account/42").Then(clientv3.OpPut("balance/42", "58")).Commit()
//	if errors.Is(err, guard.ErrStale) {
//		return err // another holder has the lock: nothing was written
//	}
//
// A [Guard] sends one etcd transaction for each write. The transaction compares the token in
// the context with the mark of the resource, raises the mark, and performs the caller's own
// compares and operations:
//
//	Txn    admit, and perform a transaction of the caller's
//	Admit  admit only: a claim, for lock.Locker, and a guard.Store
//
// Each takes one round trip, whether it raises the mark, finds it raised or is refused. A
// write under the mark's own token does not write the mark.
//
// # What it promises
//
//   - A write whose token is stale, or collides, is never applied, even if its holder was
//     paused between any two steps, for any time.
//   - A write is applied at most once, and is not sent after its caller has returned.
//     clientv3 sends a transaction again if a proxy or the server ends it with Canceled or
//     DeadlineExceeded, but a guarded one only if the server has applied nothing.
//   - A write has one outcome, which errors.Is finds: see [Guard.Txn]. Each error that does
//     not prove that nothing was applied is [guard.ErrUnknown].
//
// # What it does not do
//
// A mark fences only data of the same cluster: both are restored from the same snapshot.
// For data elsewhere, such as a row in PostgreSQL, admitting here and writing there is
// check-then-act. Use sqlguard.
//
// A read-modify-write is safe if the token was claimed by [Guard.Admit] before the read, or
// if If compares what was read. A write that bypasses the Guard is not fenced: a plain Put, a
// concurrency.STM, and a Client whose KV is wrapped, as by package namespace. A proxy that
// sends requests again, as etcd's own gRPC proxy can, may apply a write twice: connect to the
// members.
//
// There is no Mint: the revision at which etcd's own mutex was granted is a number
// ([Guard.Txn] has an example). Do not use both revisions and the larger numbers of
// Fencepost's issuers for one resource.
//
// # Keys
//
//	fencepost/mark/<resource>   "<number> <holder>", without a lease
//
// The number has fifteen digits, with leading zeros, since etcd compares values byte by byte.
// The mark is never lowered and must not be deleted or edited. Programs in other languages can
// share it.
//
// # Which servers
//
// etcd 3.4 or newer. The operations of a guarded write are in a nested transaction. etcd
// checks the permissions of these (GHSA-rfx7-8w68-q57q) and counts them against its quota
// (etcd-io/etcd#22134) from 3.5.33, 3.6.14 and 3.7.1 on. Older releases lack one or both.
// The tests run on 3.4.23, and ran on 3.6.16 and 3.7.3 on 2026-11-29.
package etcdguard
