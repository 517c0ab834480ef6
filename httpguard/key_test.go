package httpguard_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
)

// hazard W14
// net/http repeats a request with a key whose body it can read again, if a kept connection
// breaks, with and without a token. The caller decides about a repeat.
func TestAKeyedRequestIsSentOnce(t *testing.T) {
	t.Parallel()
	own := serve(t, nil, true)
	byHand := http.Header{"Idempotency-Key": {`"k"`}}
	guarded := token.NewContext(t.Context(), tok("account/42", 33, "a"))
	for name, server := range map[string]func() *testenv.FlakyServer{
		"HTTP/1.1": func() *testenv.FlakyServer { return testenv.Flaky(t) },
		"HTTP/2":   func() *testenv.FlakyServer { return testenv.FlakyHTTP2(t, own.TLS.Certificates[0]) },
	} {
		for what, c := range map[string]struct {
			ctx  context.Context
			set  http.Header
			body string
		}{
			", a key without a body":                  {httpguard.WithIdempotencyKey(t.Context(), "k"), nil, ""},
			", a key with a body":                     {httpguard.WithIdempotencyKey(t.Context(), "k"), nil, "x"},
			", a token and a body, and a key by hand": {guarded, byHand, "x"},
		} {
			t.Run(name+what, func(t *testing.T) {
				base := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: own.trust().RootCAs}}
				defer base.CloseIdleConnections()
				flaky := server()
				_, host, _ := strings.Cut(flaky.URL, "://")
				transport := httpguard.Transport{Base: base, Hosts: []string{host}}
				require.ErrorIs(t, sentAgain(c.ctx, t, transport, flaky.URL, c.body, c.set), guard.ErrUnknown)
				require.Equal(t, 1, flaky.Applied())
				require.NoError(t, sentAgain(c.ctx, t, transport, flaky.URL, c.body, c.set))
				require.Equal(t, 2, flaky.Applied())

				flaky = server()
				require.NoError(t, sentAgain(t.Context(), t, base, flaky.URL, c.body, byHand))
				require.Equal(t, 2, flaky.Applied(), "the twin: net/http alone")
			})
		}
	}
}

// sentAgain sends a write over a connection that breaks before the response arrives.
func sentAgain(ctx context.Context, t *testing.T, via http.RoundTripper, url, body string, set http.Header) error {
	t.Helper()
	if strings.HasPrefix(url, "http:") { // a connection to keep
		resp, err := (&http.Client{Transport: via}).Get(url)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, "PUT", url, content)
	require.NoError(t, err)
	maps.Copy(req.Header, set)
	resp, err := via.RoundTrip(req)
	if err == nil {
		err = resp.Body.Close()
	}
	return err
}

// twice retries a request without a response.
type twice struct{ *http.Transport }

func (t twice) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.Transport.RoundTrip(req)
	if err != nil {
		req = req.Clone(req.Context())
		if req.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
		resp, err = t.Transport.RoundTrip(req)
	}
	return resp, err
}

// sentTwice sends a guarded write by a base that retries it.
func sentTwice(t *testing.T, host string) error {
	t.Helper()
	base := twice{&http.Transport{}}
	t.Cleanup(base.CloseIdleConnections)
	ctx := token.NewContext(t.Context(), tok("account/42", 33, "a"))
	return sentAgain(ctx, t, httpguard.Transport{Base: base, Hosts: []string{host}}, "http://"+host+"/", "x", nil)
}

// The result of the second attempt does not show the outcome of the first.
func TestARefusalOfASecondAttempt(t *testing.T) {
	t.Parallel()
	var marks guard.Memory
	var applied atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(http.ResponseWriter, *http.Request) {})
	mux.Handle("PUT /{$}", httpguard.Middleware{Resources: httpguard.Pattern("account/42"), Store: &marks}.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		applied.Add(1)
		_ = marks.Admit(context.Background(), tok("account/42", 34, "b")) // a newer holder, at another replica
		panic(http.ErrAbortHandler)
	})))
	s := serve(t, mux, false)
	err := sentTwice(t, s.Listener.Addr().String())
	require.EqualValues(t, 1, applied.Load())
	require.ErrorIs(t, err, guard.ErrUnknown, "it was applied")
	require.False(t, guard.IsRefusal(err))
}

func TestASecondAttemptWithoutAServer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	applied := make(chan bool, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		requests := bufio.NewReader(conn)
		_, _ = http.ReadRequest(requests)
		_ = listener.Close() // the service is going down
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		req, err := http.ReadRequest(requests)
		if err == nil {
			_, err = io.Copy(io.Discard, req.Body)
		}
		applied <- err == nil
	}()
	err = sentTwice(t, listener.Addr().String())
	require.True(t, <-applied)
	require.ErrorIs(t, err, guard.ErrUnknown, "the first attempt was applied")
}

// A key that is written is read back. What is accepted without quotes is the same key with
// quotes, and a second line makes every field malformed.
func FuzzKey(f *testing.F) {
	for _, line := range []string{"k", `"k"`, `"k";v=1`, `a\b`, `"a\"b"`, "größe", "a,b", ""} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if text, err := httpguard.FormatKey(line); err == nil {
			key, err := httpguard.ParseKey([]string{text})
			require.NoError(t, err)
			require.Equal(t, line, key)
		}
		key, err := httpguard.ParseKey([]string{line})
		if err != nil {
			return
		}
		require.NotEmpty(t, key)
		text, err := httpguard.FormatKey(key)
		require.NoError(t, err)
		again, err := httpguard.ParseKey([]string{text})
		require.NoError(t, err)
		require.Equal(t, key, again)
		_, err = httpguard.ParseKey([]string{line, line})
		require.Error(t, err)
	})
}
