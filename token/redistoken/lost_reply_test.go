package redistoken_test

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// hazard R6
func TestLostReplyIsAskedForAgain(t *testing.T) {
	t.Parallel()
	server, prefix := testenv.Redis(t)
	proxy := newProxy(t, server.Options().Addr)
	options := *server.Options()
	options.Addr, options.MaxRetries = proxy.addr(), -1
	client := redis.NewClient(&options)
	defer client.Close()
	iss := &redistoken.Issuer{Client: client, Prefix: prefix}
	earlier := cycle(t, iss, "earlier") // the scripts are loaded, the connection is up

	proxy.loseNextReply()
	_, err := iss.Acquire(t.Context(), resource, "a", long)
	require.Error(t, err)
	require.NotErrorIs(t, err, token.ErrHeld)
	require.Equal(t, "a", server.Get(t.Context(), lockKey(prefix, resource)).Val(), "the request must have been done")
	burnt, err := server.Get(t.Context(), counterKey(prefix, resource)).Int64()
	require.NoError(t, err)

	_, err = iss.Acquire(t.Context(), resource, "b", long)
	require.ErrorIs(t, err, token.ErrHeld)
	found := acquire(t, iss, "a")
	require.Greater(t, burnt, earlier.Number)
	require.Greater(t, found.Number, burnt)
	require.NoError(t, iss.Release(t.Context(), found))

	t.Run("SET NX keeps its own holder out", func(t *testing.T) {
		lock := prefix + ":naive"
		require.NoError(t, client.Ping(t.Context()).Err())
		proxy.loseNextReply()
		require.Error(t, client.SetNX(t.Context(), lock, "a", long).Err())
		again, err := client.SetNX(t.Context(), lock, "a", long).Result()
		require.NoError(t, err)
		require.False(t, again, "the holder must find itself shut out")
	})
}

// hazard R6
func TestClientThatRetriesByItself(t *testing.T) {
	t.Parallel()
	server, prefix := testenv.Redis(t)
	proxy := newProxy(t, server.Options().Addr)
	options := *server.Options()
	options.Addr = proxy.addr()
	client := redis.NewClient(&options)
	defer client.Close()
	iss := &redistoken.Issuer{Client: client, Prefix: prefix}
	earlier := cycle(t, iss, "earlier")

	proxy.loseNextReply()
	found := acquire(t, iss, "a")
	require.Greater(t, found.Number, earlier.Number)
	require.NoError(t, iss.Release(t.Context(), found))
}

// proxy stands between a client and a server.
type proxy struct {
	net.Listener
	server string
	lose   atomic.Bool
	done   sync.WaitGroup
}

func newProxy(t *testing.T, server string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{Listener: listener, server: server}
	p.done.Go(p.serve)
	t.Cleanup(func() { listener.Close(); p.done.Wait() })
	return p
}

func (p *proxy) addr() string { return p.Addr().String() }

// loseNextReply makes the proxy hang up instead of passing on what the server
// answers next.
func (p *proxy) loseNextReply() { p.lose.Store(true) }

func (p *proxy) serve() {
	for {
		client, err := p.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			client.Close()
			continue
		}
		p.done.Go(func() { defer server.Close(); _, _ = io.Copy(server, client) })
		p.done.Go(func() { defer client.Close(); p.reply(client, server) })
	}
}

func (p *proxy) reply(client io.Writer, server io.Reader) {
	buffer := make([]byte, 4096)
	for {
		n, err := server.Read(buffer)
		if err != nil || p.lose.CompareAndSwap(true, false) {
			return
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}
