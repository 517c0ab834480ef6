package httpguard_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
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

// site is a server that a test speaks to over a real connection.
type site struct {
	t *testing.T
	*httptest.Server
}

// serve starts handler, which speaks HTTP/1.1, and HTTP/2 over TLS if two.
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

// everyProtocol runs test over HTTP/1.1 and over HTTP/2, each with its own
// handler.
func everyProtocol(t *testing.T, handler func() http.Handler, test func(t *testing.T, s site)) {
	t.Helper()
	for version, name := range map[int]string{1: "over HTTP/1.1", 2: "over HTTP/2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, handler(), version == 2)
			require.Equal(t, version, s.do("GET", "/").major, "the protocol under test")
			test(t, s)
		})
	}
}

// reply is an answer, read to its end.
type reply struct {
	status, major int
	header        http.Header
	body          string
}

// problem decodes the body, and holds it to what every problem must be.
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

// do sends a request with the given lines of the field.
func (s site) do(method, path string, lines ...string) reply {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+path, nil)
	require.NoError(s.t, err)
	for _, line := range lines {
		req.Header.Add(httpguard.Header, line)
	}
	return s.send(s.Client(), req)
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

// try is do for goroutines of a test: it returns 0 where there is no answer.
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

// bank is a service: a mux with guarded accounts that remembers who wrote.
type bank struct {
	mu     sync.Mutex
	writes []string
}

// mux routes by patterns of net/http and guards the accounts with m.
func (b *bank) mux(m httpguard.Middleware) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/accounts/{id}", m.Wrap(b))
	mux.HandleFunc("GET /{$}", func(http.ResponseWriter, *http.Request) {})
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

// line is a field with one token.
func line(resource string, number int64, holder string) string {
	return strconv.FormatInt(number, 10) + `;r="` + resource + `";h="` + holder + `"`
}

// storeFunc is a guard.Store that is a function.
type storeFunc func(ctx context.Context, tok token.Token) error

func (f storeFunc) Admit(ctx context.Context, tok token.Token) error { return f(ctx, tok) }

func storeDown(text string) guard.Store {
	return storeFunc(func(context.Context, token.Token) error { return errors.New(text) })
}

// withRoot adds the page that everyProtocol asks for first.
func withRoot(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.HandleFunc("GET /{$}", func(http.ResponseWriter, *http.Request) {})
	return mux
}
