package main

import (
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
)

// hazard W1
// A proxy is stopped in the middle of a request, for longer than any bound, and
// goes on. Whoever is let in meanwhile would be overwritten: nobody is.
func TestAProxyThatIsStoppedKeepsItsResource(t *testing.T) {
	t.Parallel()
	p := newPair(t, "--wait", "2s")
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
	var newer reply
	require.Eventually(t, func() bool {
		p.upstream.open <- struct{}{}
		newer = next(t, p.put(p.b, "newer", 34))
		return newer.status == 200
	}, eventually, time.Millisecond)
	writes := p.upstream.writes()
	require.Equal(t, "newer", writes[len(writes)-1])
}

// The naive twin: each proxy has its own idea of who is in flight.
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
