package partition_test

import "github.com/fencepost/fencepost/simulations/proxy"

// fault is a way to part a holder from its issuer.
type fault struct {
	name string
	set  func(*proxy.Proxy)
}

// mute are partitions: neither side hears anything.
var mute = []fault{
	{"nothing passes", func(p *proxy.Proxy) { p.Blackhole(proxy.Both) }},
	{"nothing arrives at the server", func(p *proxy.Proxy) { p.Blackhole(proxy.ToServer) }},
	{"no answer comes back", func(p *proxy.Proxy) { p.Blackhole(proxy.ToClient) }},
}

var faults = append(mute[:len(mute):len(mute)],
	fault{"connections are reset", func(p *proxy.Proxy) { p.Cut(proxy.Both) }})
