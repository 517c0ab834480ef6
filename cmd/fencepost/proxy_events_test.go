package main

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newEvents starts an upstream that sends an event after each value of more, and one before.
func newEvents(t *testing.T) (upstream *httptest.Server, more chan struct{}) {
	t.Helper()
	more = make(chan struct{})
	upstream = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			fmt.Fprint(w, "data: x\n\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-more:
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(upstream.Close)
	return upstream, more
}

// events requests the events through the proxy. It repeats the request if a timeout of the
// proxy has passed.
func events(t *testing.T, p *proxied) *bufio.Reader {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", p.url+"/events", nil)
	require.NoError(t, err)
	var response *http.Response
	for response == nil || response.StatusCode == http.StatusGatewayTimeout { // the machine is busy
		response, err = (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		require.NoError(t, err)
		t.Cleanup(func() { response.Body.Close() })
	}
	return bufio.NewReader(response.Body)
}

// The proxy flushes each part of a response as soon as the upstream has sent it.
func TestEventsAreNotKeptBack(t *testing.T) {
	t.Parallel()
	upstream, more := newEvents(t)
	p := startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}", "--timeout", "500ms")
	lines := events(t, p)
	for range 3 {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "data: x", strings.TrimSpace(line))
		_, _ = lines.ReadString('\n')
		time.Sleep(200 * time.Millisecond) // in total longer than the timeout for a response's header
		more <- struct{}{}
	}
}

// A response that has no bound of its own is cut off in the end.
func TestTheEndCutsEventsOff(t *testing.T) {
	t.Parallel()
	upstream, _ := newEvents(t)
	p := startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}", "--timeout", "500ms", "--wait", "100ms")
	lines := events(t, p)
	_, err := lines.ReadString('\n')
	require.NoError(t, err)
	p.signal(syscall.SIGTERM)
	require.Equal(t, 1, p.status())
	require.EqualValues(t, 1, p.line("ended before its requests did")["cut_off"])
}
