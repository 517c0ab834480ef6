package main

import (
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
)

// hazard W1
// A proxy is stopped in the middle of a request, for longer than every timeout, and then
// continues. Meanwhile no newer request is admitted, since the older one would overwrite
// its write.
func TestAProxyThatIsStoppedKeepsItsResource(t *testing.T) {
	t.Parallel()
	p := newPair(t, "--wait", shortWait)
	conn := p.half(p.a, "account/42", 33)
	p.a.signal(syscall.SIGSTOP)
	for range 3 {
		require.Equal(t, 503, next(t, p.put(p.b, "newer", 34)).status)
	}
	_, err := io.WriteString(conn, "er")
	require.NoError(t, err)
	p.a.signal(syscall.SIGCONT)
	require.Equal(t, "older", next(t, p.upstream.arrived), "the rest of it, as it was sent")
	p.upstream.open <- struct{}{}
	p.upstream.open <- struct{}{}
	require.Equal(t, 200, next(t, p.insist(p.b, "newer", 34)).status)
	require.Equal(t, []string{"older", "newer"}, p.upstream.writes())
}

// The naive twin: each proxy has its own table of requests in flight.
func TestAStoppedProxyWithoutASharedWindowWritesLast(t *testing.T) {
	t.Parallel()
	_, prefix := testenv.Redis(t)
	upstream := newGated(t)
	args := []string{"--store", testenv.RedisURL(t), "--resource", "/account/{id}=" + prefix + "/{id}"}
	p := &pair{T: t, upstream: upstream, a: startProxy(t, upstream.URL, args...), b: startProxy(t, upstream.URL, args...)}
	put := func(through *proxied, body string, number int64) <-chan reply {
		return async(t, "PUT", through.url+"/account/42", body, field(t, prefix+"/42", number, "h")...)
	}
	conn := p.half(p.a, prefix+"/42", 33)
	p.a.signal(syscall.SIGSTOP)
	upstream.open <- struct{}{}
	require.Equal(t, 200, next(t, put(p.b, "newer", 34)).status)
	require.Equal(t, "newer", next(t, upstream.arrived))
	_, err := io.WriteString(conn, "er")
	require.NoError(t, err)
	p.a.signal(syscall.SIGCONT)
	require.Equal(t, "older", next(t, upstream.arrived))
	upstream.open <- struct{}{}
	require.Eventually(t, func() bool { return len(upstream.writes()) == 2 }, eventually, time.Millisecond)
	require.Equal(t, []string{"newer", "older"}, upstream.writes(), "stale, and last")
	require.Equal(t, 412, next(t, put(p.a, "stale", 33)).status, "the marks themselves are shared")
}
