package testenv

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/internal/test/serverproc"
)

var sharedRedis = source{name: "Redis", env: EnvRedis, url: redisURL, local: redisProgram}

// RedisURL returns the URL of the shared server, for tests that make clients of their
// own. Their keys must contain the prefix that Redis returned.
func RedisURL(t testing.TB) string {
	t.Helper()
	return sharedRedis.URL(t)
}

// Redis returns a client of the shared server, with the options of its URL, and a prefix
// for the keys of this test, without a colon at its end. At the end of the test all keys
// that contain the prefix are removed and the client is closed. The test may close it
// before.
func Redis(t testing.TB) (client *redis.Client, prefix string) {
	t.Helper()
	options := redisOptions(t, RedisURL(t))
	client, prefix = redis.NewClient(options), unique("fencepost-test-")
	t.Cleanup(func() {
		client.Close() // an error means that the test closed it
		if err := removeKeys(t, options, prefix); err != nil {
			t.Errorf("testenv: remove the keys of %s: %v", prefix, err)
		}
	})
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatalf("testenv: Redis does not answer: %v", err)
	}
	return client, prefix
}

func removeKeys(t testing.TB, options *redis.Options, prefix string) error {
	ctx, cancel := afterTest(t)
	defer cancel()
	client := redis.NewClient(options)
	defer client.Close()
	keys := client.Scan(ctx, 0, "*"+prefix+"*", 1000).Iterator()
	for keys.Next(ctx) {
		if err := client.Unlink(ctx, keys.Val()).Err(); err != nil {
			return err
		}
	}
	return keys.Err()
}

func redisOptions(t testing.TB, url string) *redis.Options {
	t.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	// On a busy machine a reply can take longer than the default of 3 s. Then go-redis
	// sends the command again, and a release that is sent twice finds nothing to release.
	options.ReadTimeout = time.Minute
	return options
}

func redisURL(port int) string {
	return fmt.Sprintf("redis://127.0.0.1:%d", port)
}

func redisProgram() (serverproc.Program, error) {
	path, version, err := redisBinary()
	if err != nil {
		return serverproc.Program{}, err
	}
	argv := func(folder string, port int) []string {
		return []string{
			path, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", folder,
			"--save", "", "--appendonly", "no",
		}
	}
	return serverproc.Program{
		Title: "version " + version + " of " + path, Argv: argv,
		Ready: "Ready to accept connections", Signal: "TERM",
	}, nil
}
