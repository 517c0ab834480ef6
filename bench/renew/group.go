package renew

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/bench/wire"
	"github.com/fencepost/fencepost/token/redistoken"
)

// Group is the clients, and how many leases are kept.
type Group struct {
	// Leases is how many there are, and TTL how long each lasts. They may be
	// changed before anything is measured.
	Leases int
	TTL    time.Duration

	sent   wire.Counter
	client *redis.Client // its packets are counted
	asks   *redis.Client // its are not
	issuer *redistoken.Issuer
}

// Open connects to the server at url, which belongs to the group from then on.
func Open(ctx context.Context, url string) (*Group, error) {
	g := &Group{Leases: 10_000, TTL: 15 * time.Second}
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("renew: %w", err)
	}
	g.asks = redis.NewClient(options)
	if g.client, err = g.sent.Redis(url); err == nil {
		err = g.asks.Ping(ctx).Err()
	}
	if err != nil {
		g.Close()
		return nil, fmt.Errorf("renew: %w", err)
	}
	g.issuer = &redistoken.Issuer{Client: g.client}
	return g, nil
}

// Close closes the clients.
func (g *Group) Close() {
	for _, client := range []*redis.Client{g.client, g.asks} {
		if client != nil {
			_ = client.Close()
		}
	}
}

// period is how often a lease is renewed.
func (g *Group) period() time.Duration { return g.TTL / 3 }

func resource(lease int) string { return fmt.Sprintf("lease/%d", lease) }
