package handover

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/bench/measure"
)

const (
	hold  = time.Millisecond
	think = 3 * time.Millisecond
)

// Group is the clients of all waiters.
type Group struct {
	client  *redis.Client // asks for round trips
	sides   []*side
	closers []func()
}

// Open connects to the server at url, which belongs to the group from then on.
func Open(ctx context.Context, url string) (*Group, error) {
	g := &Group{}
	if err := g.open(ctx, url); err != nil {
		g.Close()
		return nil, fmt.Errorf("handover: %w", err)
	}
	return g, nil
}

func (g *Group) open(ctx context.Context, url string) error {
	options, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	g.client = redis.NewClient(options)
	g.closers = append(g.closers, func() { _ = g.client.Close() })
	if err := g.client.Ping(ctx).Err(); err != nil {
		return err
	}
	for _, open := range opened {
		s := &side{url: url}
		g.sides = append(g.sides, s)
		g.closers = append(g.closers, func() { s.close() })
		if err := open(s); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the clients.
func (g *Group) Close() {
	for _, closer := range g.closers {
		closer()
	}
}

// most is how many waiters there are at most.
const most = 128

// Trials are in the order in which they are to be measured. The more waiters, the
// longer a block: each has to have its turn a few times.
func (g *Group) Trials() []measure.Trial {
	return []measure.Trial{
		g.trial(8, think, 200*time.Millisecond),
		g.trial(32, think, 300*time.Millisecond),
		g.trial(most, think, 800*time.Millisecond),
		g.trial(8, 0, 200*time.Millisecond),
	}
}
