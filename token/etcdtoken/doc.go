// Package etcdtoken grants tokens from etcd. It sends JSON to the gRPC gateway of the
// servers by net/http, and adds no module to a program.
//
//	iss := etcdtoken.New(etcdtoken.Config{Endpoints: []string{"http://localhost:2379"}})
//	locker := lock.Locker{Issuer: iss, Name: "billing", TTL: 30 * time.Second, Claim: fence.Admit}
//
// docs/locks.md has what it promises and what it costs, under "Locks in a store with a
// compare-and-swap". It uses no lease of etcd.
//
// A resource is one key, the prefix and its name (`etcdctl get --prefix fencepost/`). An
// operation compares and writes it in one transaction. A majority of the members has each
// grant on disk before it is returned. After the restore of a snapshot, a holder of before
// gets [token.ErrLost]: each write compares the whole record, and not its revision alone,
// which repeats. Over TLS, all watches share a connection of HTTP/2. Else each takes one.
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
