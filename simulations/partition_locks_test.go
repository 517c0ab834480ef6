package simulations_test

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/simulations/proxy"
	"github.com/fencepost/fencepost/token/redistoken"
)

// patience ends what hangs. No test is about its length.
const patience = 30 * time.Second

func startProxy(t *testing.T, target string) *proxy.Proxy {
	t.Helper()
	p, err := proxy.Start(target)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// holds waits until the proxy has something that it does not pass on.
func holds(t *testing.T, p *proxy.Proxy, way proxy.Way) {
	t.Helper()
	require.Eventually(t, func() bool { return p.Held(way) > 0 }, patience, time.Millisecond)
}

// delivered waits until there is no more of it.
func delivered(t *testing.T, p *proxy.Proxy) {
	t.Helper()
	require.Eventually(t, func() bool { return p.Held(proxy.Both) == 0 }, patience, time.Millisecond)
}

// locks are the same locks in Redis, reached by a writer A through a proxy, and
// by everybody else directly.
type locks struct {
	*proxy.Proxy
	server    *redis.Client
	prefix    string
	a, direct *redistoken.Issuer
}

func newLocks(t *testing.T) *locks {
	t.Helper()
	server, prefix := testenv.Redis(t)
	options := *server.Options()
	l := &locks{server: server, prefix: prefix, direct: &redistoken.Issuer{Client: server, Prefix: prefix}}
	options.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, l.Addr())
	}
	options.MaxRetries = -1
	client := redis.NewClient(&options)
	t.Cleanup(func() { client.Close() })
	l.Proxy = startProxy(t, server.Options().Addr)
	l.a = &redistoken.Issuer{Client: client, Prefix: prefix}
	grant, err := l.a.Acquire(t.Context(), resource, "earlier", time.Minute) // the line is up, the script is known
	require.NoError(t, err)
	require.NoError(t, l.a.Release(t.Context(), grant.Token))
	return l
}

// value is that of the one key whose name begins so, or empty.
func (l *locks) value(t *testing.T, name string) string {
	t.Helper()
	keys, err := l.server.Keys(t.Context(), l.prefix+":*:"+name+"*").Result()
	require.NoError(t, err)
	if len(keys) == 0 {
		return ""
	}
	require.Len(t, keys, 1)
	return l.server.Get(t.Context(), keys[0]).Val()
}

func (l *locks) counter(t *testing.T) int64 {
	t.Helper()
	number, err := strconv.ParseInt(l.value(t, "counter"), 10, 64)
	require.NoError(t, err)
	return number
}
