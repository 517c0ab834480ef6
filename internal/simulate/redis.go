package simulate

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// connectRedis returns a client of a server that answers.
func connectRedis(ctx context.Context, address string) (*redis.Client, error) {
	options, err := redis.ParseURL(address)
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	// Or a call would outlive its context by the client's own timeouts.
	options.ContextTimeoutEnabled = true
	client := redis.NewClient(options)
	ctx, cancel := context.WithTimeoutCause(ctx, reach, errNoAnswer)
	defer cancel()
	if err := client.Ping(ctx).Err(); err != nil {
		client.Close()
		return nil, fmt.Errorf("redis at %s cannot be used: %w", options.Addr, because(ctx, err))
	}
	return client, nil
}

// removeKeys removes the keys that begin with prefix, which must hold nothing
// that a pattern could take for more than itself.
func removeKeys(ctx context.Context, client *redis.Client, prefix string) error {
	keys := client.Scan(ctx, 0, prefix+"*", 1000).Iterator()
	for keys.Next(ctx) {
		if err := client.Unlink(ctx, keys.Val()).Err(); err != nil {
			return fmt.Errorf("simulate: remove the keys %s*: %w", prefix, err)
		}
	}
	if err := keys.Err(); err != nil {
		return fmt.Errorf("simulate: remove the keys %s*: %w", prefix, err)
	}
	return nil
}
