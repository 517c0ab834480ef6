package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBodiesThatAreTooLong(t *testing.T) {
	t.Parallel()
	upstream := newGated(t)
	p := startProxy(t, upstream.URL, append(postgresStore(t), "--resource", "account/{id}", "--max-body", "1KiB")...)
	long, tok := strings.Repeat("x", 1025), field(t, "account/42", 1, "a")
	a := ask(t, "PUT", p.url+"/account/42", long, tok...)
	require.Equal(t, 413, a.status)
	require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
	require.Empty(t, upstream.began, "a body that says how long it is does not reach the upstream")

	// A body without a Content-Length: the upstream receives its beginning, and no end.
	chunked, err := http.NewRequestWithContext(t.Context(), "PUT", p.url+"/account/42", io.MultiReader(strings.NewReader(long)))
	require.NoError(t, err)
	chunked.Header.Set(tok[0], tok[1])
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(chunked)
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, 413, response.StatusCode)
	require.Empty(t, upstream.arrived)
	require.Empty(t, upstream.writes())

	upstream.open <- struct{}{}
	require.Equal(t, 200, ask(t, "PUT", p.url+"/account/42", long[:1024], tok...).status)
	require.Equal(t, []string{long[:1024]}, upstream.writes())
}

func TestHeadersThatAreTooLong(t *testing.T) {
	t.Parallel()
	upstream := newNoted(t)
	p := startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}", "--max-header-bytes", "8KiB")
	require.Equal(t, 431, ask(t, "GET", p.url+"/", "", "X-Long", strings.Repeat("x", 20<<10)).status)
	require.Equal(t, 400, ask(t, "PUT", p.url+"/account/1", "", "Fencing-Token", strings.Repeat(" ", 8<<10-200)+"!").status)
	require.Empty(t, upstream.take())
}

func TestAnUpstreamThatIsSlowOrGone(t *testing.T) {
	t.Parallel()
	upstream := newGated(t)
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-t.Context().Done() }))
	t.Cleanup(silent.Close)
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, c := range map[string]struct {
		upstream, method string
		status           int
		problem          string
	}{
		"a write that takes too long":    {upstream.URL, "PUT", 504, "ProblemUnknown"},
		"a read that takes too long":     {silent.URL, "GET", 504, ""},
		"a write that was never sent":    {gone.URL, "PUT", 502, ""},
		"a read that was never sent":     {gone.URL, "GET", 502, ""},
		"a write that broke off midways": {breaking(t), "PUT", 502, "ProblemUnknown"},
		"a read that broke off midways":  {breaking(t), "GET", 502, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := postgresStore(t)
			lasting(t, 250*time.Millisecond, func(timeout time.Duration) bool {
				if c.status != http.StatusGatewayTimeout {
					timeout = eventually
				}
				p := startProxy(t, c.upstream, append(store, "--resource", "account/{id}", "--timeout", timeout.String())...)
				a := ask(t, c.method, p.url+"/account/42", "x", field(t, "account/42", 1, "a")...)
				require.Equal(t, c.status, a.status)
				require.EqualValues(t, c.status, p.line("failed")["status"])
				if c.status == http.StatusGatewayTimeout && c.problem != a.problem {
					return false // the time was over before the request was sent
				}
				require.Equal(t, c.problem, a.problem, a.body)
				require.Equal(t, c.method == "PUT" && c.problem == "", strings.Contains(a.body, "Nothing was applied") && c.method == "PUT", a.body)
				return true
			})
		})
	}
}

// breaking is an upstream that reads a request and closes the connection.
func breaking(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			conn.Close()
		}
	}()
	return fmt.Sprintf("http://%s", listener.Addr())
}

func TestTooManyRequestsInFlight(t *testing.T) {
	t.Parallel()
	upstream := newGated(t)
	p := startProxy(t, upstream.URL, append(postgresStore(t), "--resource", "account/{id}", "--max-in-flight", "2", "--wait", shortWait)...)
	type sending func(t *testing.T, method, target, body string, header ...string) <-chan reply
	put := func(send sending, id string) <-chan reply {
		return send(t, "PUT", p.url+"/account/"+id, id, field(t, "account/"+id, 1, "a")...)
	}
	first, second := put(insist, "1"), put(insist, "2")
	next(t, upstream.arrived)
	next(t, upstream.arrived)
	third := next(t, put(async, "3"))
	require.Equal(t, 503, third.status)
	require.Equal(t, "ProblemUnavailable", third.problem)
	require.Equal(t, 200, ask(t, "GET", p.url+"/account/3", "").status, "what is not guarded takes no slot")
	p.ready() // although it is full
	upstream.open <- struct{}{}
	upstream.open <- struct{}{}
	require.Equal(t, 200, next(t, first).status)
	require.Equal(t, 200, next(t, second).status)
	upstream.open <- struct{}{}
	require.Equal(t, 200, next(t, put(insist, "3")).status)
}

// hazard W8
// If a client disconnects, the upstream's work continues, and the resource stays held
// until the upstream has responded.
func TestAClientThatLeaves(t *testing.T) {
	t.Parallel()
	p := newPair(t, "--wait", shortWait)
	conn := p.half(p.a, "account/42", 33)
	_, err := io.WriteString(conn, "er")
	require.NoError(t, err)
	require.Equal(t, "older", next(t, p.upstream.arrived))
	require.NoError(t, conn.Close())
	for _, through := range []*proxied{p.a, p.b} {
		require.Equal(t, 503, next(t, p.put(through, "newer", 34)).status)
	}
	p.upstream.open <- struct{}{}
	p.upstream.open <- struct{}{}
	require.Equal(t, 200, next(t, p.insist(p.b, "newer", 34)).status)
	require.Equal(t, []string{"older", "newer"}, p.upstream.writes())
}

// If a client disconnects in the middle of its body, the upstream never receives the end
// of the request, and the resource is free.
func TestAClientThatLeavesInTheMiddleOfItsBody(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	require.NoError(t, p.half(p.a, "account/42", 33).Close())
	p.upstream.open <- struct{}{}
	require.Equal(t, 200, next(t, p.put(p.b, "newer", 34)).status)
	require.Equal(t, []string{"newer"}, p.upstream.writes())
}

// hazard W1
// If a client sleeps in the middle of its body, a newer request to the same proxy is not
// blocked.
func TestAClientThatSleepsInTheMiddleOfItsBody(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	conn := p.half(p.a, "account/42", 33)
	p.upstream.open <- struct{}{}
	require.Equal(t, 200, next(t, p.put(p.a, "newer", 34)).status)
	require.EqualValues(t, 412, p.a.line("refused")["status"])
	_, _ = io.WriteString(conn, "er") // it wakes up
	answer, _ := io.ReadAll(conn)
	require.Contains(t, string(answer), "412 Precondition Failed")
	require.Equal(t, []string{"newer"}, p.upstream.writes())
}

// begunAt is begun for a request that must reach the upstream, which then sends to began.
// If the proxy responds instead, since a short timeout has passed on a busy machine, the
// request is sent again.
func (p *proxied) begunAt(began <-chan struct{}, format string, args ...any) net.Conn {
	p.Helper()
	conn := p.begun(format, args...)
	for deadline := time.Now().Add(eventually); time.Now().Before(deadline); {
		select {
		case <-began:
			require.NoError(p, conn.SetReadDeadline(time.Time{}))
			return conn
		default:
		}
		require.NoError(p, conn.SetReadDeadline(time.Now().Add(5*time.Millisecond)))
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			conn.Close()
			conn = p.begun(format, args...)
		}
	}
	require.FailNow(p, "the upstream did not get the request")
	return nil
}

// begun sends text, and returns the connection.
func (p *proxied) begun(format string, args ...any) net.Conn {
	p.Helper()
	conn, err := net.Dial("tcp", p.address)
	require.NoError(p, err)
	p.Cleanup(func() { conn.Close() })
	_, err = fmt.Fprintf(conn, strings.ReplaceAll(format, "\n", "\r\n"), args...)
	require.NoError(p, err)
	return conn
}

// hazard W15
// A client that never sends the rest of its request, or never reads its response, loses
// its slot after --timeout. Otherwise, with enough such clients, every guarded write would
// get a 503. The last case is the twin: before the timeout the client has its slot.
func TestAClientThatStallsKeepsNoPlace(t *testing.T) {
	t.Parallel()
	const half = "Host: x\nFencing-Token: %s\nContent-Length: 5\n\nx"
	for name, request := range map[string]string{
		"a read whose body drips":  "GET /account/42 HTTP/1.1\n" + half,
		"a write whose body drips": "PUT /account/42 HTTP/1.1\n" + half,
		"a body without a length": "PUT /account/42 HTTP/1.1\nHost: x\nFencing-Token: %s\nTransfer-Encoding: chunked\n\n" +
			"1\nx\n",
		"a WebSocket whose body drips":           "GET /account/42 HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket\n" + half,
		"a body that is announced":               "PUT /account/42 HTTP/1.1\nExpect: 100-continue\n" + strings.TrimSuffix(half, "x"),
		"a write whose answer is not read":       "PUT /account/42/endless HTTP/1.1\nHost: x\nFencing-Token: %s\nContent-Length: 1\n\nx",
		"a read whose answer is not read":        "GET /account/42/endless HTTP/1.1\nHost: x\nFencing-Token: %s\n\n",
		"a read that is answered before its end": "GET /account/42/early HTTP/1.1\n" + half,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := make(chan struct{}, 10)
			upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/account/7" {
					began <- struct{}{}
				}
				switch r.URL.Path {
				case "/account/42/endless":
					for text := make([]byte, 1<<20); ; {
						if _, err := w.Write(text); err != nil {
							return
						}
					}
				case "/account/42/early":
					_ = http.NewResponseController(w).EnableFullDuplex()
					_ = http.NewResponseController(w).Flush()
				}
				_, _ = io.Copy(io.Discard, r.Body)
			}))
			t.Cleanup(upstream.Close)
			p := startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}",
				"--timeout", "500ms", "--max-in-flight", "1")
			p.begunAt(began, request, field(t, "account/42", 1, "a")[1])
			write := ask(t, "PUT", p.url+"/account/7", "x", field(t, "account/7", 1, "b")...)
			require.Contains(t, []int{200, 504}, write.status, write.body) // 504: the machine is busy
		})
	}
	t.Run("the twin: no bound", func(t *testing.T) {
		t.Parallel()
		upstream := newGated(t)
		p := startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}",
			"--timeout", "1h", "--wait", "100ms", "--max-in-flight", "1")
		p.begunAt(upstream.began, "PUT /account/42 HTTP/1.1\n"+half, field(t, "account/42", 1, "a")[1])
		require.Equal(t, 503, ask(t, "PUT", p.url+"/account/7", "x", field(t, "account/7", 1, "b")...).status)
	})
}

// hazard W15
// A client that stops in the middle of its body gets the 503 too. Without the proxy's own
// handling, net/http would read the rest of the body first.
func TestAClientThatStopsInItsBodyIsToldToComeAgain(t *testing.T) {
	t.Parallel()
	p := newPair(t, "--wait", shortWait)
	older := p.insist(p.a, "older", 33)
	next(t, p.upstream.arrived)
	conn := p.b.begun("PUT /account/42 HTTP/1.1\nHost: x\nFencing-Token: %s\nContent-Length: 5\n\nnew", field(t, "account/42", 34, "b")[1])
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(eventually)))
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, 503, answer.StatusCode)
	require.NoError(t, answer.Body.Close())
	p.upstream.open <- struct{}{}
	require.Equal(t, 200, next(t, older).status)
}
