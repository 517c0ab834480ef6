package main

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

// hazard W14
// net/http retries a request by itself in two cases: if a reused connection breaks and the
// request has an Idempotency-Key, and over HTTP/2 if the stream is reset with
// PROTOCOL_ERROR. The first attempt may have been applied. Without a newer token in
// between, the second would be applied too.
func TestAnUnsafeRequestIsSentOnce(t *testing.T) {
	cert, key := serverproc.Certificate(t)
	t.Setenv("SSL_CERT_FILE", cert) // what the proxy trusts
	pair, err := tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	h2 := func(t testing.TB) *testenv.FlakyServer { return testenv.FlakyHTTP2(t, pair) }
	for name, c := range map[string]struct {
		upstream func(testing.TB) *testenv.FlakyServer
		body     string
		header   []string
		twice    bool // the twin sends it twice
	}{
		"HTTP/1.1, Idempotency-Key":   {testenv.Flaky, "", []string{"Idempotency-Key", "1"}, true},
		"HTTP/1.1, X-Idempotency-Key": {testenv.Flaky, "", []string{"X-Idempotency-Key", "1"}, true},
		"HTTP/1.1, with a body":       {testenv.Flaky, "x", []string{"Idempotency-Key", "1"}, false},
		"HTTP/2":                      {h2, "", nil, true},
		"HTTP/2, with a body":         {h2, "x", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			put := func(to string) reply {
				if _, h2 := strings.CutPrefix(name, "HTTP/2"); !h2 { // the first request leaves a connection to reuse
					require.Equal(t, 200, ask(t, "GET", to+"/account/42", "").status)
				}
				return ask(t, "PUT", to+"/account/42", c.body, append(c.header, field(t, "account/42", 1, "a")...)...)
			}
			upstream := c.upstream(t)
			a := put(startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}").url)
			require.Equal(t, 1, upstream.Applied())
			require.Equal(t, 502, a.status)
			require.Equal(t, "ProblemUnknown", a.problem)
			require.NotContains(t, a.body, "Nothing was applied")

			upstream = c.upstream(t)
			a = put(standardProxy(t, upstream.URL, cert))
			require.Equal(t, c.twice, upstream.Applied() == 2, "the naive twin: a reverse proxy of the standard library")
			require.Equal(t, c.twice, a.status == 200)
		})
	}
}

// standardProxy is the standard library's reverse proxy, which trusts cert.
func standardProxy(t *testing.T, upstream, cert string) string {
	t.Helper()
	target, err := url.Parse(upstream)
	require.NoError(t, err)
	text, err := os.ReadFile(cert)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(text))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
	})
	t.Cleanup(func() {
		server.Close()
		transport.CloseIdleConnections()
	})
	return server.URL
}
