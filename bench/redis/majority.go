package redis

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/bench/measure"
	"github.com/fencepost/fencepost/bench/peer"
	"github.com/fencepost/fencepost/token/redisquorum"
)

// openQuorum makes the servers members, where there are enough.
func (g *Group) openQuorum(ctx context.Context) error {
	if len(g.nodes) < 3 {
		return nil
	}
	g.quorum = &redisquorum.Issuer{Nodes: map[string]redis.UniversalClient{}}
	for i, client := range g.nodes {
		g.quorum.Nodes[fmt.Sprintf("node-%d", i)] = client
	}
	return g.quorum.Bootstrap(ctx)
}

// majority is what a majority costs, beside the other library that has one, which
// gives no token.
func (g *Group) majority() []measure.Figure {
	if g.quorum == nil {
		return nil
	}
	redsync, ours := locked(peer.Redsync(g.nodes...)), issued(g.quorum)
	return []measure.Figure{
		{Name: "redsync, three servers", Baseline: "raw", Plain: g.raw, Ours: redsync},
		{Name: "Acquire, Release, three servers", Baseline: "raw", Plain: g.raw, Ours: ours},
		{Name: "Acquire, Release, three servers", Baseline: "redsync, three servers", Plain: redsync, Ours: ours},
	}
}
