package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/bench/measure"
	"github.com/fencepost/fencepost/bench/peer"
	"github.com/fencepost/fencepost/bench/wire"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redisquorum"
	"github.com/fencepost/fencepost/token/redistoken"
)

// Group is the clients and the locks that are measured.
type Group struct {
	sent   wire.Counter
	client *redis.Client
	nodes  []redis.UniversalClient // of the majority; the first is client
	issuer *redistoken.Issuer
	quorum *redisquorum.Issuer // nil where there is one server
	ours   *token.Locker

	rueidis, rueidisThree peer.Lock
	closers               []func() error // the last first
}

// Open connects to the servers at urls, which belong to the group from then on:
// one, and two more where a majority is to be measured.
func Open(ctx context.Context, urls ...string) (*Group, error) {
	g := &Group{}
	if err := g.open(ctx, urls); err != nil {
		g.Close()
		return nil, fmt.Errorf("redis: %w", err)
	}
	return g, nil
}

func (g *Group) open(ctx context.Context, urls []string) error {
	for _, url := range urls {
		client, err := g.sent.Redis(url)
		if err != nil {
			return err
		}
		g.closers = append(g.closers, client.Close)
		if err := client.Ping(ctx).Err(); err != nil {
			return err
		}
		if g.client == nil {
			g.client = client
		}
		g.nodes = append(g.nodes, client)
	}
	g.issuer = &redistoken.Issuer{Client: g.client}
	g.closers = append(g.closers, g.issuer.Close)
	g.ours = &token.Locker{Issuer: g.issuer, Name: "bench", TTL: peer.TTL}
	return errors.Join(g.openRueidis(urls[0]), g.openQuorum(ctx))
}

func (g *Group) openRueidis(url string) error {
	for keys, lock := range map[int32]*peer.Lock{1: &g.rueidis, 3: &g.rueidisThree} {
		opened, closer, err := peer.Rueidislock(url, keys, &g.sent)
		if err != nil {
			return err
		}
		*lock = opened
		g.closers = append(g.closers, func() error { closer(); return nil })
	}
	return nil
}

// Close closes the issuer and then the clients.
func (g *Group) Close() {
	for _, closer := range slices.Backward(g.closers) {
		_ = closer()
	}
}

// Figures are in the order in which they are to be measured.
func (g *Group) Figures() []measure.Figure {
	figures := g.counted()
	for _, workers := range []int{1, many} {
		figures = append(figures, g.timed(workers)...)
	}
	return append(figures, g.refused()...)
}
