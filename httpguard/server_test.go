package httpguard_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

// site is a server that a test connects to.
type site struct {
	t *testing.T
	*httptest.Server
}

// serve starts handler over HTTP/1.1, or over HTTP/2 with TLS if two is true.
func serve(t *testing.T, handler http.Handler, two bool) site {
	t.Helper()
	return serveWith(t, handler, two, 0)
}

func serveWith(t *testing.T, handler http.Handler, two bool, writeTimeout time.Duration) site {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.WriteTimeout = writeTimeout
	server.EnableHTTP2 = two
	if two {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return site{t, server}
}

// bothVersions runs test for HTTP/1.1 and for HTTP/2.
func bothVersions(t *testing.T, test func(t *testing.T, two bool)) {
	t.Helper()
	for name, two := range map[string]bool{"over HTTP/1.1": false, "over HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, two)
		})
	}
}

// everyProtocol runs test over HTTP/1.1 and over HTTP/2, each with a new handler.
func everyProtocol(t *testing.T, handler func() http.Handler, test func(t *testing.T, s site)) {
	t.Helper()
	bothVersions(t, func(t *testing.T, two bool) {
		s := serve(t, handler(), two)
		require.Equal(t, map[bool]int{false: 1, true: 2}[two], s.do("GET", "/").major, "the protocol under test")
		test(t, s)
	})
}

// reply is a response, read to its end.
type reply struct {
	status, major int
	header        http.Header
	body          string
}

// problem decodes the body, and checks what every problem must have.
func (r reply) problem(t *testing.T) map[string]any {
	t.Helper()
	require.Equal(t, "application/problem+json", r.header.Get("Content-Type"))
	require.Equal(t, "no-store", r.header.Get("Cache-Control"))
	require.Equal(t, "nosniff", r.header.Get("X-Content-Type-Options"))
	var body map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.body), &body), r.body)
	require.EqualValues(t, r.status, body["status"])
	require.NotEmpty(t, body["title"])
	return body
}

// request returns a request with the given lines of the field.
func (s site) request(ctx context.Context, method, path string, body io.Reader, lines ...string) *http.Request {
	s.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, body)
	require.NoError(s.t, err)
	for _, line := range lines {
		req.Header.Add(httpguard.Header, line)
	}
	return req
}

// matched is a PUT of account 42 whose path has been matched, for a handler that a test
// calls itself.
func matched(ctx context.Context, body io.Reader, lines ...string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, "PUT", "/accounts/42", body)
	r.SetPathValue("id", "42")
	for _, line := range lines {
		r.Header.Add(httpguard.Header, line)
	}
	return r
}

// do sends a request with the given lines of the field.
func (s site) do(method, path string, lines ...string) reply {
	s.t.Helper()
	return s.send(s.Client(), s.request(s.t.Context(), method, path, nil, lines...))
}

// dial opens a connection that lasts until the test has ended.
func (s site) dial() *net.TCPConn {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(s.t, err)
	s.t.Cleanup(func() { conn.Close() })
	require.NoError(s.t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return conn.(*net.TCPConn)
}

// dialTLS is dial for HTTP/2.
func (s site) dialTLS() *tls.Conn {
	s.t.Helper()
	conn := tls.Client(s.dial(), s.trust("h2"))
	require.NoError(s.t, conn.HandshakeContext(s.t.Context()))
	return conn
}

// trust returns the client configuration for the server.
func (s site) trust(protocols ...string) *tls.Config {
	roots := x509.NewCertPool()
	if s.Certificate() != nil {
		roots.AddCert(s.Certificate())
	}
	return &tls.Config{RootCAs: roots, NextProtos: protocols, ServerName: "example.com"}
}

func (s site) send(client *http.Client, req *http.Request) reply {
	s.t.Helper()
	resp, err := client.Do(req)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return reply{status: resp.StatusCode, major: resp.ProtoMajor, header: resp.Header, body: string(body)}
}

// try is do for other goroutines of a test: it returns 0 if there is no response.
func (s site) try(path string, lines ...string) int {
	req, err := http.NewRequestWithContext(s.t.Context(), "PUT", s.URL+path, nil)
	if err != nil {
		return 0
	}
	req.Header[httpguard.Header] = lines
	resp, err := s.Client().Do(req)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// bank is a service: a mux with guarded accounts that records the writers.
type bank struct {
	mu     sync.Mutex
	writes []string
}

// mux routes by patterns of net/http and guards the accounts with m.
func (b *bank) mux(m httpguard.Middleware) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/accounts/{id}", m.Wrap(b))
	return mux
}

func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	written := r.Method
	for _, tok := range token.All(r.Context()) {
		written += " " + tok.String()
	}
	b.writes = append(b.writes, written)
	w.WriteHeader(http.StatusNoContent)
}

func (b *bank) written() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string{}, b.writes...)
}

var accounts = httpguard.Pattern("account/{id}")

// line returns a field with one token.
func line(resource string, number int64, holder string) string {
	return strconv.FormatInt(number, 10) + `;r="` + resource + `";h="` + holder + `"`
}

// storeFunc is a function as a guard.Store.
type storeFunc func(ctx context.Context, tok token.Token) error

func (f storeFunc) Admit(ctx context.Context, tok token.Token) error { return f(ctx, tok) }

func storeDown(text string) guard.Store {
	return storeFunc(func(context.Context, token.Token) error { return errors.New(text) })
}
