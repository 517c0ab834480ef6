package httpwrite_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/httpwrite"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

// hazard W14
// A body that the client can read again, such as a string, makes no difference.
func TestOneAttempt(t *testing.T) {
	t.Parallel()
	own := httptest.NewTLSServer(nil)
	defer own.Close()
	roots := x509.NewCertPool()
	roots.AddCert(own.Certificate())
	h2 := func(t testing.TB) *testenv.FlakyServer { return testenv.FlakyHTTP2(t, own.TLS.Certificates[0]) }
	for name, c := range map[string]struct {
		server func(testing.TB) *testenv.FlakyServer
		body   io.Reader
	}{
		"HTTP/1.1":              {testenv.Flaky, nil},
		"HTTP/1.1, with a body": {testenv.Flaky, strings.NewReader("x")},
		"HTTP/2":                {h2, nil},
		"HTTP/2, with a body":   {h2, strings.NewReader("x")},
	} {
		t.Run(name, func(t *testing.T) {
			base := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
			defer base.CloseIdleConnections()
			send := func(to string, method string, body io.Reader, via func(*http.Request) (*http.Response, error)) error {
				req, err := http.NewRequestWithContext(t.Context(), method, to, body)
				require.NoError(t, err)
				req.Header.Set("Idempotency-Key", "1")
				resp, err := via(req)
				if err == nil {
					require.Same(t, req, resp.Request)
					_, err = io.Copy(io.Discard, resp.Body)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
				}
				return err
			}
			once := func(req *http.Request) (*http.Response, error) {
				resp, attempts, err := httpwrite.SendOnce(base, req)
				require.Equal(t, 1, attempts)
				return resp, err
			}
			server := c.server(t)
			if strings.HasPrefix(server.URL, "http:") { // so that there is a connection to reuse
				require.NoError(t, send(server.URL, "GET", nil, once))
			}
			require.Error(t, send(server.URL, "PUT", c.body, once))
			require.Equal(t, 1, server.Applied())
			require.NoError(t, send(server.URL, "PUT", nil, once))
			require.Equal(t, 2, server.Applied())

			server = c.server(t)
			if strings.HasPrefix(server.URL, "http:") {
				require.NoError(t, send(server.URL, "GET", nil, base.RoundTrip))
			}
			if seeker, ok := c.body.(io.Seeker); ok {
				_, err := seeker.Seek(0, io.SeekStart)
				require.NoError(t, err)
			}
			require.NoError(t, send(server.URL, "PUT", c.body, base.RoundTrip))
			require.Equal(t, 2, server.Applied(), "the twin: net/http alone")
		})
	}
}

// A connection to which nothing was written is replaced.
func TestAnAttemptWithoutAWriteIsRepeated(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Idempotency-Key"))
	}))
	defer server.Close()
	var dialed []*breakable
	base := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		dialed = append(dialed, &breakable{Conn: conn})
		return dialed[len(dialed)-1], err
	}}
	defer base.CloseIdleConnections()
	for range 3 {
		req, err := http.NewRequestWithContext(t.Context(), "PUT", server.URL, strings.NewReader("x"))
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", "1")
		resp, _, err := httpwrite.SendOnce(base, req)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "1", string(text))
		require.NoError(t, resp.Body.Close())
		require.Equal(t, "1", req.Header.Get("Idempotency-Key"), "the caller's request is as it was")
		dialed[len(dialed)-1].broken.Store(true)
	}
	require.Len(t, dialed, 3)
}

type breakable struct {
	net.Conn
	broken atomic.Bool
}

func (b *breakable) Write(p []byte) (int, error) {
	if b.broken.Load() {
		return 0, io.ErrClosedPipe
	}
	return b.Conn.Write(p)
}
