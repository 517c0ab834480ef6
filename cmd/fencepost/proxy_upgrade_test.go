package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newSocket starts an upstream that switches protocols and then echoes every byte.
func newSocket(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			return
		}
		conn, both, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
		_, _ = io.Copy(conn, both)
	}))
	t.Cleanup(server.Close)
	return server
}

// open requests a switch of protocols, and returns the status and the connection. It
// repeats the request if a timeout of the proxy has passed.
func open(t *testing.T, p *proxied, to string, header ...string) (int, net.Conn, *bufio.Reader) {
	t.Helper()
	fields := ""
	for i := 0; i < len(header); i += 2 {
		fields += header[i] + ": " + header[i+1] + "\n"
	}
	for {
		conn := p.begun("GET /account/42 HTTP/1.1\nHost: x\nConnection: Upgrade\nUpgrade: %s\n%s\n", to, fields)
		reader := bufio.NewReader(conn)
		response, err := http.ReadResponse(reader, nil)
		require.NoError(t, err)
		if response.StatusCode != http.StatusSwitchingProtocols {
			response.Body.Close()
		}
		if response.StatusCode < http.StatusServiceUnavailable {
			return response.StatusCode, conn, reader
		}
	}
}

// A WebSocket begins with a GET, and may write. Until it is closed, it is guarded like a
// request with an unsafe method.
func TestWebSockets(t *testing.T) {
	t.Parallel()
	p := startProxy(t, newSocket(t).URL, append(postgresStore(t), "--resource", "account/{id}", "--timeout", "500ms")...)
	status, _, _ := open(t, p, "websocket")
	require.Equal(t, 428, status)
	status, _, _ = open(t, p, "h2c")
	require.Equal(t, 200, status, "a switch to anything else is not asked for: behind it nothing would be judged")
	status, conn, reader := open(t, p, "WebSocket", field(t, "account/42", 33, "a")...)
	require.Equal(t, 101, status)
	for range 3 {
		time.Sleep(200 * time.Millisecond) // longer than the timeout for a response
		fmt.Fprintln(conn, "hello")
		line, err := reader.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "hello\n", line)
	}
	put := func(number int64, holder string) int {
		again := func(status int) bool { return status == http.StatusGatewayTimeout } // the machine is busy
		return next(t, sent(prepared(t, "PUT", p.url+"/account/42", "x", field(t, "account/42", number, holder)), again)).status
	}
	require.Equal(t, 200, put(33, "a"), "the same token")
	require.Equal(t, 200, put(34, "b"), "a newer one ends it")
	_, err := reader.ReadString('\n')
	require.Error(t, err)
	status, _, _ = open(t, p, "websocket", field(t, "account/42", 33, "a")...)
	require.Equal(t, 412, status)
}

// A newer token at another proxy waits, since a proxy can end only its own connections.
func TestAWebSocketHoldsItsResource(t *testing.T) {
	t.Parallel()
	args := append(postgresStore(t), "--resource", "account/{id}", "--wait", shortWait)
	upstream := newSocket(t)
	a, b := startProxy(t, upstream.URL, args...), startProxy(t, upstream.URL, args...)
	status, conn, _ := open(t, a, "websocket", field(t, "account/42", 33, "a")...)
	require.Equal(t, 101, status)
	newer := field(t, "account/42", 34, "b")
	require.Equal(t, 503, ask(t, "PUT", b.url+"/account/42", "x", newer...).status)
	require.NoError(t, conn.Close())
	require.Equal(t, 200, next(t, insist(t, "PUT", b.url+"/account/42", "x", newer...)).status)
}

// The proxy flushes each part of a response as soon as the upstream has sent it.
func TestEventsAreNotKeptBack(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 3 {
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
	p := startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}", "--timeout", "500ms")
	r, err := http.NewRequestWithContext(t.Context(), "GET", p.url+"/events", nil)
	require.NoError(t, err)
	var response *http.Response
	for response == nil || response.StatusCode == http.StatusGatewayTimeout { // the machine is busy
		response, err = (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		require.NoError(t, err)
		defer response.Body.Close()
	}
	lines := bufio.NewReader(response.Body)
	for range 3 {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "data: x", strings.TrimSpace(line))
		_, _ = lines.ReadString('\n')
		time.Sleep(200 * time.Millisecond) // in total longer than the timeout for a response's header
		more <- struct{}{}
	}
}
