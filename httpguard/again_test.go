package httpguard_test

import (
	"bufio"
	"context"
	"io"
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

// sentAgain sends a write over a connection that breaks before the response arrives.
func sentAgain(t *testing.T, base http.RoundTripper, host string) error {
	t.Helper()
	t.Cleanup(httpguard.Transport{Base: base}.CloseIdleConnections)
	return sentBy(t, &http.Client{Transport: httpguard.Transport{Base: base, Hosts: []string{host}}}, host)
}

func sentBy(t *testing.T, client *http.Client, host string) error {
	t.Helper()
	resp, err := client.Get("http://" + host + "/") // a connection to keep
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	ctx := token.NewContext(t.Context(), tok("account/42", 33, "a"))
	req, err := http.NewRequestWithContext(ctx, "PUT", "http://"+host+"/accounts/42", strings.NewReader("x"))
	require.NoError(t, err)
	req.Header.Set("Idempotency-Key", "1")
	resp, err = client.Do(req)
	if err == nil {
		_ = resp.Body.Close()
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

// hazard W14
// net/http retries a request with an Idempotency-Key if a kept connection breaks.
func TestAGuardedWriteIsSentOnce(t *testing.T) {
	t.Parallel()
	server := testenv.Flaky(t)
	host := strings.TrimPrefix(server.URL, "http://")
	err := sentAgain(t, &http.Transport{}, host)
	require.ErrorIs(t, err, guard.ErrUnknown)
	require.Equal(t, 1, server.Applied())
	require.NoError(t, sentAgain(t, &http.Transport{}, host))
	require.Equal(t, 2, server.Applied())

	server = testenv.Flaky(t)
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	require.NoError(t, sentBy(t, &http.Client{Transport: base}, strings.TrimPrefix(server.URL, "http://")))
	require.Equal(t, 2, server.Applied(), "the twin: net/http alone")
}

// The result of the second attempt does not show the outcome of the first.
func TestARefusalOfASecondAttempt(t *testing.T) {
	t.Parallel()
	var marks guard.Memory
	var applied atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(http.ResponseWriter, *http.Request) {})
	mux.Handle("/accounts/{id}", httpguard.Middleware{Resources: accounts, Store: &marks}.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		applied.Add(1)
		_ = marks.Admit(context.Background(), tok("account/42", 34, "b")) // a newer holder, at another replica
		panic(http.ErrAbortHandler)
	})))
	s := serve(t, mux, false)
	err := sentAgain(t, twice{&http.Transport{}}, s.Listener.Addr().String())
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
	err = sentAgain(t, twice{&http.Transport{}}, listener.Addr().String())
	require.True(t, <-applied)
	require.ErrorIs(t, err, guard.ErrUnknown, "the first attempt was applied")
}
