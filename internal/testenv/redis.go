package testenv

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
)

var sharedRedis = source{name: "Redis", env: EnvRedis, url: redisURL, local: redisProgram}

// RedisURL is the URL of the shared server, for tests that make clients of
// their own. Their keys begin with the prefix that Redis gave the test.
func RedisURL(t testing.TB) string {
	t.Helper()
	return sharedRedis.URL(t)
}

// Redis returns a client of the shared server, with the options that its URL
// gives it, and a prefix for the keys of this test alone, without a colon at its
// end. At the end of the test every key that contains the prefix is removed and
// the client is closed; the test may have closed it before.
func Redis(t testing.TB) (client *redis.Client, prefix string) {
	t.Helper()
	options := redisOptions(t, RedisURL(t))
	client, prefix = redis.NewClient(options), unique("fencepost-test-")
	t.Cleanup(func() {
		client.Close() // an error only says that the test closed it
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
	return options
}

func redisURL(port int) string {
	return fmt.Sprintf("redis://127.0.0.1:%d", port)
}

func redisProgram() (program, error) {
	path, version, err := redisBinary()
	if err != nil {
		return program{}, err
	}
	argv := func(folder string, port int) []string {
		return []string{
			path, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", folder,
			"--save", "", "--appendonly", "no",
		}
	}
	return program{
		title: "version " + version + " of " + path, argv: argv,
		ready: "Ready to accept connections", signal: "TERM",
	}, nil
}
