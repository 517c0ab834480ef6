// Package proxy stands between a client and a server and breaks the network
// between them, for tests.
//
//	test ──▶ Proxy ──▶ server
//	     ◀──       ◀──
//
// # What it is
//
// A TCP proxy in this process. Its faults are set, and healed, at any time, for
// one way or both, and the connections that are open then have them too:
//
//	Cut        connections are reset, new ones too
//	Blackhole  nothing passes and nothing is answered: a partition
//	Delay      everything arrives later
//
// # What it promises
//
//   - What passes does so whole and in order; the end of a connection (a FIN or
//     a reset) comes behind the bytes that were sent before it, and half-closing
//     is passed on.
//   - What a Blackhole swallowed is not lost: it arrives when the way heals, as
//     TCP would send it again after a partition (RFC 9293 §3.8), even where its
//     sender has closed the connection meanwhile. This is the packet that comes
//     late. To lose it, Cut before you Heal.
//   - A receiver that does not read stops its sender, as without a proxy.
//
// # What it does not
//
// It knows no packets and no names, speaks no protocol, and limits no
// bandwidth. It cannot swallow the SYN of a new connection: the kernel accepts
// that. What had passed the proxy when a fault was set arrives.
//
//	p, err := proxy.Start("127.0.0.1:5432")
//	...
//	defer p.Close()
//	pool, err := pgxpool.New(ctx, "postgres://user@"+p.Addr()+"/db")
//	...
//	p.Blackhole(proxy.ToClient) // the COMMIT arrives, its answer does not
//
// # Why not Toxiproxy
//
// Its "timeout" throws away what it is sent, and closes the connection when it
// is removed (Shopify/toxiproxy#168, #598): the packet that comes late cannot be
// had. It is a server that is driven over HTTP, and its module would be among
// the dependencies of this one. It has what is missing here: bandwidth, jitter,
// slow closing, cutting after so many bytes, faults for a share of the
// connections. Put it behind a Proxy where you need that.
package proxy
