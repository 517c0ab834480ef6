package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/guard/redisguard"
)

// redis makes a store that admits and does not hold: what keeps an older request
// and a newer one apart is the window of this one process.
func (c *proxyCmd) redis() (marksStore, error) {
	options, err := redis.ParseURL(c.Store)
	if err != nil {
		return marksStore{}, unreadable("--store: not a redis:// URL")
	}
	options.ContextTimeoutEnabled = true
	client := redis.NewClient(options)
	return marksStore{
		marks: &redisguard.Guard{Client: client},
		ready: func(ctx context.Context) error {
			if err := client.Ping(ctx).Err(); err != nil {
				return fmt.Errorf("redis at %s cannot be used: %w", options.Addr, err)
			}
			return nil
		},
		close: func() { client.Close() },
	}, nil
}
