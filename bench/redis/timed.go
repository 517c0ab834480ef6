package redis

import (
	"fmt"

	"github.com/fencepost/fencepost/bench/cost"
	"github.com/fencepost/fencepost/bench/measure"
	"github.com/fencepost/fencepost/bench/peer"
)

// The most that a lock with a token may cost beside one that has none.
const (
	mostAlone    = 1.10
	mostTogether = 0.95
)

// timed begins with the noise.
func (g *Group) timed(workers int) []measure.Figure {
	target := mostAlone
	if workers > 1 {
		target = mostTogether
	}
	figures := []measure.Figure{
		{Name: "a/a", Ours: g.raw},
		{Name: "two PINGs", Ours: g.pings},
		{Name: "Acquire, Release", Ours: issued(g.issuer), Target: target},
		{Name: "Hold", Ours: g.hold},
		{Name: "redislock", Ours: locked(peer.Redislock(g.client))},
		{Name: "redsync", Ours: locked(peer.Redsync(g.client))},
		{Name: "rueidislock, one key", Ours: locked(g.rueidis)},
		{Name: "rueidislock, three keys", Ours: locked(g.rueidisThree)},
	}
	for i := range figures {
		figures[i].Baseline, figures[i].Plain = "raw", g.raw
	}
	figures = append(figures, g.majority()...)
	for i := range figures {
		figures[i].Workers = workers
		if workers > 1 {
			figures[i].Name += fmt.Sprintf(", %d goroutines", workers)
		}
	}
	if workers > 1 {
		figures = append(figures, g.inAll(figures[0]), g.inAll(figures[2]))
	}
	return figures
}

// inAll is f by the time that all of its goroutines take together: what goes out
// in one packet waits for company, and leaves more time for others.
func (g *Group) inAll(f measure.Figure) measure.Figure {
	f.Name, f.Cost, f.Target = f.Name+": in all", cost.Elapsed, 0
	return f
}
