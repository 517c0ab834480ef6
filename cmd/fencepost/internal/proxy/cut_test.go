package proxy

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard"
)

// cutUpstream breaks its connection after so many bytes of a request, or of its answer.
type cutUpstream struct {
	net.Listener
	running sync.WaitGroup

	mu             sync.Mutex
	request        int // how many bytes of it are read; -1: all
	answer         int // how many bytes of it are sent; -1: all
	bytes, applied int
}

const cutAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\napplied"

func newCutUpstream(t *testing.T) *cutUpstream {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	u := &cutUpstream{Listener: listener}
	u.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			u.running.Go(func() {
				defer conn.Close()
				u.serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		u.running.Wait()
	})
	return u
}

// serve takes one request of a connection.
func (u *cutUpstream) serve(conn net.Conn) {
	first := make([]byte, 1)
	if _, err := io.ReadFull(conn, first); err != nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	var from io.Reader = conn
	if u.request >= 0 {
		from = io.LimitReader(conn, int64(u.request-1))
	}
	count := &counted{Reader: io.MultiReader(strings.NewReader(string(first)), from)}
	r, err := http.ReadRequest(bufio.NewReaderSize(count, 16))
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body)
	}
	if err != nil {
		return
	}
	u.bytes = count.n
	u.applied++
	if u.answer < 0 {
		u.answer = len(cutAnswer)
	}
	_, _ = io.WriteString(conn, cutAnswer[:u.answer])
}

type counted struct {
	io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

func (u *cutUpstream) cut(request, answer int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.request, u.answer, u.applied = request, answer, 0
}

func (u *cutUpstream) writes() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.applied
}

// The connection to the service is cut at each byte of a guarded write, and at each byte
// of its answer. A write that may have been applied is answered as unknown or cut off,
// and each request releases its slot.
func TestAServiceThatIsCutAtEachByte(t *testing.T) {
	t.Parallel()
	upstream := newCutUpstream(t)
	target, err := url.Parse("http://" + upstream.Addr().String())
	require.NoError(t, err)
	c := &Cmd{Upstream: target, Resource: []string{"account/{id}"}, DangerouslyMemory: true,
		Timeout: time.Minute, Wait: time.Minute, MaxInFlight: 1, MaxBody: 1 << 10}
	p, err := c.proxy(t.Context(), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	server := httptest.NewServer(p)
	defer server.Close()
	number := int64(1000) // each has as many digits
	put := func() (status int, body string, err error) {
		number++
		r, err := http.NewRequestWithContext(t.Context(), "PUT", server.URL+"/account/42", strings.NewReader("x"))
		require.NoError(t, err)
		r.Header.Set(httpguard.Header, fmt.Sprintf(`%d;r="account/42";h="h"`, number))
		response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		if err != nil {
			return 0, "", err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return response.StatusCode, string(text), err
	}
	upstream.cut(-1, -1)
	status, _, err := put()
	require.NoError(t, err)
	require.Equal(t, 200, status)
	unknown, cutOff := 0, 0
	check := func() {
		status, body, err := put()
		applied := upstream.writes()
		switch {
		case err != nil: // the answer has begun, and broke off
			cutOff++
		case status == 200:
			require.Equal(t, 1, applied)
		default:
			unknown++
			require.Equal(t, 502, status)
			require.Contains(t, body, `"type":"`+httpguard.ProblemUnknown+`"`)
		}
		require.LessOrEqual(t, applied, 1)
		require.Empty(t, p.slots)
	}
	for n := range upstream.bytes {
		upstream.cut(n, -1)
		check()
		require.Zero(t, upstream.writes(), n)
	}
	for n := range cutAnswer {
		upstream.cut(-1, n)
		check()
		require.Equal(t, 1, upstream.writes(), n)
	}
	upstream.cut(-1, -1)
	check()
	require.Equal(t, upstream.bytes+len(cutAnswer), unknown+cutOff)
	require.Equal(t, len("applied"), cutOff)
	t.Logf("%d bytes of a request and %d of its answer: %d unknown, %d cut off", upstream.bytes, len(cutAnswer), unknown, cutOff)
}
