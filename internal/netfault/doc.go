// Package netfault is a TCP proxy between a client and a server that breaks the network
// between them, for tests.
//
//	test ──▶ Proxy ──▶ server
//	     ◀──       ◀──
//
// # What it is
//
// The proxy runs in this process. Its faults can be set and healed at any time, for one
// direction or both. They affect connections that are already open too:
//
//	Cut        connections are reset, new ones too
//	Blackhole  nothing passes and nothing is answered: a partition
//
// # What it promises
//
//   - Data passes whole and in order. The end of a connection (a FIN or a reset) arrives
//     after the bytes that were sent before it, and half-closing is passed on.
//   - Data held by a Blackhole is not lost: it arrives when the direction heals, as TCP
//     sends it again after a partition (RFC 9293 §3.8), even if its sender has closed
//     the connection in the meantime. This is the packet that comes late. To lose it,
//     Cut before you Heal.
//   - A receiver that does not read stops its sender, as without a proxy.
//
// # What it does not do
//
// It has no packets and no host names, parses no protocol, and limits no bandwidth. It
// cannot drop the SYN of a new connection: the kernel accepts the connection. Data that
// had passed the proxy before a fault was set arrives.
//
//	p, err := netfault.Start("127.0.0.1:5432")
//	...
//	defer p.Close()
//	pool, err := pgxpool.New(ctx, "postgres://user@"+p.Addr()+"/db")
//	...
//	p.Blackhole(netfault.ToClient) // the COMMIT arrives, its answer does not
//
// # Why not Toxiproxy
//
// Its "timeout" discards the data it receives, and closes the connection when the fault
// is removed (Shopify/toxiproxy#168, #598), so a packet cannot arrive late. It is a
// server that is driven over HTTP, and its module would be a dependency of this one. It
// supports faults that are missing here: latency, bandwidth, slow closing, cutting after a
// number of bytes, faults for a share of the connections. If you need those, put
// Toxiproxy behind a Proxy.
package netfault
