package redisguard_test

import (
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/proxy"
)

// far is a client beyond a network that breaks. Its own retries are on.
func (e *env) far(change ...func(*redis.Options)) (*redis.Client, *proxy.Proxy) {
	e.Helper()
	options := e.options()
	p, err := proxy.Start(options.Addr)
	require.NoError(e, err)
	e.Cleanup(p.Close)
	options.Addr, options.MaxRetries, options.MinRetryBackoff = p.Addr(), 3, -1
	for _, change := range change {
		change(&options)
	}
	return connect(e.T, options), p
}

// hold has do write, and holds the server's answer back. do has been called
// before, so that there is a connection.
func (e *env) hold(p *proxy.Proxy, do func() error) <-chan error {
	e.Helper()
	require.NoError(e, do())
	keys := []string{e.key, e.key + ":set", e.key + ":hset", e.key + ":eval"}
	require.NoError(e, e.client.Del(e.Context(), keys...).Err())
	p.Blackhole(proxy.ToClient)
	done := start(do)
	eventually(e.T, func() bool { return e.client.Exists(e.Context(), keys...).Val() > 0 }, "it is applied")
	return done
}

// cut loses what was held back, and resets the connections. New ones work.
func cut(p *proxy.Proxy) {
	p.Cut(proxy.Both)
	p.Heal(proxy.Both)
}
