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
	"github.com/fencepost/fencepost/token"
)

// net/http sends a request with an Idempotency-Key again where a kept connection
// breaks. What the second attempt comes to says nothing of the first.
func sentAgain(t *testing.T, base *http.Transport, host string) error {
	t.Helper()
	t.Cleanup(base.CloseIdleConnections)
	client := &http.Client{Transport: httpguard.Transport{Base: base, Hosts: []string{host}}}
	resp, err := client.Get("http://" + host + "/") // a connection to keep
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	ctx := token.NewContext(t.Context(), tok("account/42", 33, "a"))
	req, err := http.NewRequestWithContext(ctx, "PUT", "http://"+host+"/accounts/42", strings.NewReader("x"))
	require.NoError(t, err)
	req.Header.Set("Idempotency-Key", "1")
	_, err = client.Do(req)
	return err
}

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
	err := sentAgain(t, &http.Transport{}, s.Listener.Addr().String())
	require.EqualValues(t, 1, applied.Load())
	require.ErrorIs(t, err, guard.ErrUnknown, "it was applied")
	require.False(t, guard.Refusal(err))
}

func TestASecondAttemptThatFindsNobody(t *testing.T) {
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
	err = sentAgain(t, &http.Transport{}, listener.Addr().String())
	require.True(t, <-applied)
	require.ErrorIs(t, err, guard.ErrUnknown, "the first attempt was applied")
}
