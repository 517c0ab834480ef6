package testenv

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

var spareRedis = source{name: "spare Redis", env: EnvSpareRedis, url: redisURL, local: redisProgram}

// SpareRedis returns a client of a second Redis server, which is empty and this
// test's alone: it may be flushed, filled and reconfigured. At the end of the
// test it is emptied and the client is closed; a setting that the test changed
// it sets back itself. It ends the test when the spare server is the shared one
// as well.
func SpareRedis(t testing.TB) *redis.Client {
	t.Helper()
	options := redisOptions(t, spareRedis.URL(t))
	if options.Addr == redisOptions(t, RedisURL(t)).Addr {
		t.Fatalf("testenv: %s and %s are one server, which must not be emptied", EnvSpareRedis, EnvRedis)
	}
	spareRedis.exclusive(t, "spare-redis")
	empty := func() {
		ctx, cancel := afterTest(t)
		defer cancel()
		own := redis.NewClient(options) // the test may have closed its client
		defer own.Close()
		if err := own.FlushAll(ctx).Err(); err != nil {
			t.Errorf("testenv: empty the spare Redis: %v", err)
		}
	}
	empty()
	t.Cleanup(empty)
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() }) // an error only says that the test closed it
	return client
}
