package testenv

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// RedisAt returns a client of the shared server, with the options that its URL
// gives it, but at another address: that of a proxy in front of it. The client is
// closed at the end of the test.
func RedisAt(t testing.TB, addr string) *redis.Client {
	t.Helper()
	options := redisOptions(t, RedisURL(t))
	options.Addr = addr
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() }) // an error only says that the test closed it
	return client
}
