package redistoken_test

import (
	"context"
	"hash/crc32"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const resource = "account/42"

// long is a ttl that outlasts every test that does not wait for an expiry.
const long = 10 * time.Minute

// testTimeout ends a test that blocks. No test depends on its length.
const testTimeout = 2 * time.Minute

func lockKey(prefix, resource string) string { return base(prefix, resource) + "lock:" + resource }

func counterKey(prefix, resource string) string { return base(prefix, resource) + "counter" }

func queueKey(prefix, resource string) string { return base(prefix, resource) + "queue:" + resource }

func base(prefix, resource string) string {
	return prefix + ":{" + strconv.Itoa(int(crc32.ChecksumIEEE([]byte(resource))%256)) + "}:"
}

func acquire(t *testing.T, iss token.Issuer, holder string) token.Token {
	t.Helper()
	grant, err := iss.Acquire(t.Context(), resource, holder, long)
	require.NoError(t, err)
	require.NoError(t, grant.Token.Validate())
	return grant.Token
}

// cycle acquires and releases.
func cycle(t *testing.T, iss token.Issuer, holder string) token.Token {
	t.Helper()
	tok := acquire(t, iss, holder)
	require.NoError(t, iss.Release(t.Context(), tok))
	return tok
}

func run(t *testing.T, client *redis.Client, script string, keys []string, args ...any) any {
	t.Helper()
	reply, err := redis.NewScript(script).Run(t.Context(), client, keys, args...).Result()
	require.NoError(t, err)
	return reply
}

// closing returns iss, and closes it at the end of the test.
func closing(t testing.TB, iss *redistoken.Issuer) *redistoken.Issuer {
	t.Helper()
	t.Cleanup(func() { require.NoError(t, iss.Close()) })
	return iss
}

// within returns what c receives. Only a call that hangs takes longer than testTimeout.
func within[T any](t *testing.T, c <-chan T, hangs string) (received T) {
	t.Helper()
	select {
	case received = <-c:
	case <-time.After(testTimeout):
		require.FailNow(t, hangs)
	}
	return received
}

// hook is a redis.Hook that changes nothing.
type hook struct{}

func (hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// wrapped returns a client with the options, whose connections are wrapped. The test may
// close it.
func wrapped(t *testing.T, options *redis.Options, wrap func(net.Conn) net.Conn) *redis.Client {
	t.Helper()
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return wrap(conn), nil
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}

func splitLines(text string) []string { return strings.Split(strings.ReplaceAll(text, "\r", ""), "\n") }

// clock returns the least number that can be minted now.
func clock() int64 { return time.Now().UnixMicro() / 10 }
