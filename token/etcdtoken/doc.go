// Package etcdtoken grants tokens from etcd. It sends JSON to the gRPC gateway of the
// servers by net/http, and adds no module to a program.
//
//	iss := etcdtoken.New(etcdtoken.Config{Endpoints: []string{"http://localhost:2379"}})
//	locker := lock.Locker{Issuer: iss, Name: "billing", TTL: 30 * time.Second, Claim: fence.Admit}
//
// # What it promises
//
//   - A resource has one holder at a time. Its numbers rise with every grant, and are at
//     or above the clock in units of 10 µs. A majority of the members has each grant on
//     disk before it is returned, so it survives the loss of the leader.
//   - If a snapshot is restored, or the keys are deleted, numbers continue from the clock.
//     A holder of before then gets [token.ErrLost]: each write compares the whole record,
//     and not its revision alone, which repeats.
//   - Waiters are served in the order of arrival, across processes. A release hands the
//     resource to the first of them. A process watches a resource once for all its waiters.
//
// # What it costs
//
// A resource is one key, the prefix and its name, with a record in JSON: the number, the
// holder and the queue (`etcdctl get --prefix fencepost/`). An operation compares and
// writes that record in one transaction. So each renewal is a write by the consensus of
// the members, three for each lease and TTL: use a TTL of 30 s or more. A key is never
// deleted, since it has the last number. A process that waits has one watch for each
// resource, which over TLS shares the connection of HTTP/2, and else takes one.
//
// # What it does not do
//
// It uses no lease of etcd. Each process measures by its own clock for how long a record
// has not changed. A caller that does not wait judges a record that it sees for the first
// time by the header Date, which counts seconds: it takes over from a dead holder two to
// four seconds after the TTL.
//
// A URL with the wrong scheme looks like a server that cannot be reached: etcd closes the
// connection.
//
// # Which servers
//
// etcd 3.4 or newer with its gateway open (--enable-grpc-gateway, the default). Some
// managed clusters close it. The tests run on 3.4.23. The gateway does not pass on a
// client's certificate as a user: a cluster with authentication needs [Config.User], and
// that user a role:
//
//	etcdctl role grant-permission locks --prefix=true readwrite fencepost/
//
// After a restore, bump the revision (etcdutl snapshot restore --bump-revision
// --mark-compacted), as etcd's documentation advises: watches of other programs need it.
package etcdtoken
