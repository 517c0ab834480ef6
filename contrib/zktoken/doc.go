// Package zktoken grants tokens from ZooKeeper. It is a module of its own, so that only its
// users require the ZooKeeper client.
//
//	conn, _, err := zk.Connect([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, 10*time.Second)
//	iss := zktoken.New(zktoken.Config{Conn: conn})
//	locker := lock.Locker{Issuer: iss, Name: "billing", TTL: 30 * time.Second, Claim: fence.Admit}
//
// docs/locks.md has what it promises and what it costs, under "Locks in a store with a
// compare-and-swap". It uses no ephemeral znode: an expired session ends no lease.
//
// A resource is one znode. An operation asks the server to catch up with the leader, which
// would else show a lock as held that was released, then reads the znode, and writes it if
// its version has not changed. A majority of the servers has each grant on disk before it is
// returned. If the znode is deleted, its versions repeat; a holder of before gets
// [token.ErrLost]. A znode ".clock" beside the records is written about once a minute by each
// process, to read the leader's clock.
//
// The client does not tell a certificate that is not trusted from a server that cannot be
// reached, nor a connection that its program has closed from one that was lost.
//
// The tests run on ZooKeeper 3.8, alone and as an ensemble of three. TLS is that of the
// connection's dialer, and credentials are those of its AddAuth: give an ACL with them.
package zktoken
