package redispoint_test

import (
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/simulations/redispoint"
)

// The test opens its client with the hook; the program's own code does not change.
func ExampleHook() {
	open := func(addr string) *redis.Client {
		client := redis.NewClient(&redis.Options{Addr: addr})
		client.AddHook(new(redispoint.Hook))
		return client
	}
	_ = open
}
