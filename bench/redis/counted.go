package redis

import (
	"github.com/fencepost/fencepost/bench/cost"
	"github.com/fencepost/fencepost/bench/measure"
	"github.com/fencepost/fencepost/bench/peer"
)

// counted is what does not depend on the machine. That an operation takes two
// round trips is asserted by tests as well.
func (g *Group) counted() []measure.Figure {
	var figures []measure.Figure
	for _, f := range []measure.Figure{
		{Name: "Acquire, Release", Ours: issued(g.issuer), Target: mostRoundTrips},
		{Name: "Hold", Ours: g.hold, Target: mostRoundTrips},
		{Name: "redislock", Ours: locked(peer.Redislock(g.client))},
		{Name: "redsync", Ours: locked(peer.Redsync(g.client))},
		{Name: "rueidislock, one key", Ours: locked(g.rueidis)},
	} {
		f.Name, f.Baseline = f.Name+": round trips", "one PING"
		f.Plain, f.Cost = g.ping, cost.Counted(g.sent.Packets)
		figures = append(figures, f)
	}
	for _, f := range []measure.Figure{
		{Name: "raw", Ours: g.raw},
		{Name: "two PINGs", Ours: g.pings},
		{Name: "Acquire, Release", Ours: issued(g.issuer), Target: mostAllocations},
		{Name: "Hold", Ours: g.hold},
		{Name: "redislock", Ours: locked(peer.Redislock(g.client))},
		{Name: "redsync", Ours: locked(peer.Redsync(g.client))},
		{Name: "rueidislock, one key", Ours: locked(g.rueidis)},
	} {
		f.Name, f.Baseline = f.Name+": allocations", "one allocation"
		f.Plain, f.Cost, f.Size = cost.One, cost.Allocated, enough
		figures = append(figures, f)
	}
	return figures
}

const (
	mostRoundTrips  = 2
	mostAllocations = 15
	// enough operations for what a block itself allocates to be nothing.
	enough = 400
)
