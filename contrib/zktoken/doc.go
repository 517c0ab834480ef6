// Package zktoken grants tokens from ZooKeeper. It is a module of its own, so that only its
// users require the ZooKeeper client.
//
//	conn, _, err := zk.Connect([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, 10*time.Second)
//	iss := zktoken.New(zktoken.Config{Conn: conn})
//	locker := lock.Locker{Issuer: iss, Name: "billing", TTL: 30 * time.Second, Claim: fence.Admit}
//
// # What it promises
//
//   - A resource has one holder at a time. Its numbers rise with every grant, and are at
//     or above the clock in units of 10 µs. A majority of the servers has each grant on disk
//     before it is returned, so it survives the loss of the leader.
//   - If a snapshot is restored, or the znodes are deleted, numbers continue from the clock.
//     A holder of before then gets [token.ErrLost].
//   - Waiters are served in the order of arrival, across processes. A release hands the
//     resource to the first of them. A process watches a resource once for all its waiters.
//
// # What it costs
//
// A resource is one znode with a record in JSON: the number, the holder and the queue. In its
// name, each byte that is not a letter, a digit, '-' or '_' is "=" and two hexadecimal digits.
// Each operation asks the server to catch up with the leader, reads the record, and writes
// it: a server that is behind would show a lock as held that was released, and the versions
// of a znode that was deleted repeat. So each renewal is two reads, and a write by the
// consensus of the servers, three for each lease and TTL: use a TTL of 30 s or more. A znode
// is never deleted, since it has the last number.
//
// # What it does not do
//
// It uses no ephemeral znode: an expired session ends no lease. Each process measures by its
// own clock for how long a record has not changed. A znode ".clock" beside the records is
// written about once a minute by each process, to read the leader's clock.
//
// The client does not tell a certificate that is not trusted from a server that cannot be
// reached, nor a connection that its program has closed from one that was lost.
//
// # Which servers
//
// The tests run on ZooKeeper 3.8, alone and as an ensemble of three. TLS is that of the
// connection's dialer, and credentials are those of its AddAuth: give an ACL with them.
package zktoken
