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

// newSocket is an upstream that switches, and then sends back what it is sent.
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

// open asks for a switch, and returns the status and the connection.
func open(t *testing.T, p *proxied, to string, header ...string) (int, net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", p.address)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	fields := ""
	for i := 0; i < len(header); i += 2 {
		fields += header[i] + ": " + header[i+1] + "\r\n"
	}
	fmt.Fprintf(conn, "GET /account/42 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s\r\n", to, fields)
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	if response.StatusCode != http.StatusSwitchingProtocols {
		response.Body.Close()
	}
	return response.StatusCode, conn, reader
}

// A WebSocket begins with a GET, and may write. It is a request like any other
// that may, for as long as it lasts.
func TestWebSockets(t *testing.T) {
	t.Parallel()
	p := startProxy(t, newSocket(t).URL, append(postgresStore(t), "--resource", "account/{id}", "--timeout", "2s")...)
	status, _, _ := open(t, p, "websocket")
	require.Equal(t, 428, status)
	status, _, _ = open(t, p, "h2c")
	require.Equal(t, 200, status, "a switch to anything else is not asked for: behind it nothing would be judged")
	status, conn, reader := open(t, p, "WebSocket", field(t, "account/42", 33, "a")...)
	require.Equal(t, 101, status)
	for range 3 {
		time.Sleep(800 * time.Millisecond) // it lasts longer than an answer may take
		fmt.Fprintln(conn, "hello")
		line, err := reader.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "hello\n", line)
	}
	require.Equal(t, 200, ask(t, "PUT", p.url+"/account/42", "x", field(t, "account/42", 33, "a")...).status, "the same token")
	require.Equal(t, 200, ask(t, "PUT", p.url+"/account/42", "x", field(t, "account/42", 34, "b")...).status, "a newer one ends it")
	_, err := reader.ReadString('\n')
	require.Error(t, err)
	status, _, _ = open(t, p, "websocket", field(t, "account/42", 33, "a")...)
	require.Equal(t, 412, status)
}

// Another proxy's newer token waits, since it cannot end what is not its own.
func TestAWebSocketHoldsItsResource(t *testing.T) {
	t.Parallel()
	args := append(postgresStore(t), "--resource", "account/{id}", "--wait", "2s")
	upstream := newSocket(t)
	a, b := startProxy(t, upstream.URL, args...), startProxy(t, upstream.URL, args...)
	status, conn, _ := open(t, a, "websocket", field(t, "account/42", 33, "a")...)
	require.Equal(t, 101, status)
	put := func() int {
		return ask(t, "PUT", b.url+"/account/42", "x", field(t, "account/42", 34, "b")...).status
	}
	require.Equal(t, 503, put())
	require.NoError(t, conn.Close())
	require.Eventually(t, func() bool { return put() == 200 }, eventually, time.Millisecond)
}

// What the upstream sends bit by bit arrives bit by bit.
func TestEventsAreNotKeptBack(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 3 {
			fmt.Fprint(w, "data: x\n\n")
			_ = http.NewResponseController(w).Flush()
			<-more
		}
	}))
	t.Cleanup(upstream.Close)
	p := startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}", "--timeout", "2s")
	r, err := http.NewRequestWithContext(t.Context(), "GET", p.url+"/events", nil)
	require.NoError(t, err)
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	require.NoError(t, err)
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	for range 3 {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "data: x", strings.TrimSpace(line))
		_, _ = lines.ReadString('\n')
		time.Sleep(800 * time.Millisecond) // longer in all than an answer's beginning may take
		more <- struct{}{}
	}
}
