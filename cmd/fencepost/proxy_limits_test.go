package main

import (
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

func TestBodiesThatAreTooLong(t *testing.T) {
	t.Parallel()
	upstream := newGated(t)
	p := startProxy(t, upstream.URL, append(postgresStore(t), "--resource", "account/{id}", "--max-body", "1KiB")...)
	long, tok := strings.Repeat("x", 1025), field(t, "account/42", 1, "a")
	a := ask(t, "PUT", p.url+"/account/42", long, tok...)
	require.Equal(t, 413, a.status)
	require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
	require.Empty(t, upstream.began, "a body that says how long it is does not reach the upstream")

	// One that does not say: the upstream sees its beginning, and no end.
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
			p := startProxy(t, c.upstream, append(postgresStore(t), "--resource", "account/{id}", "--timeout", "2s")...)
			a := ask(t, c.method, p.url+"/account/42", "x", field(t, "account/42", 1, "a")...)
			require.Equal(t, c.status, a.status)
			require.Equal(t, c.problem, a.problem, a.body)
			require.Equal(t, c.method == "PUT" && c.problem == "", strings.Contains(a.body, "Nothing was applied") && c.method == "PUT", a.body)
			require.EqualValues(t, c.status, p.line("failed")["status"])
		})
	}
}

// breaking is an upstream that reads a request and hangs up.
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
	p := startProxy(t, upstream.URL, append(postgresStore(t), "--resource", "account/{id}", "--max-in-flight", "2", "--wait", "2s")...)
	put := func(id string) <-chan reply {
		return async(t, "PUT", p.url+"/account/"+id, id, field(t, "account/"+id, 1, "a")...)
	}
	first, second := put("1"), put("2")
	next(t, upstream.arrived)
	next(t, upstream.arrived)
	third := next(t, put("3"))
	require.Equal(t, 503, third.status)
	require.Equal(t, "ProblemUnavailable", third.problem)
	require.Equal(t, 200, ask(t, "GET", p.url+"/account/3", "").status, "what is not guarded takes no place")
	require.Equal(t, 200, ask(t, "GET", p.health+"/readyz", "").status, "to be full is to be ready")
	upstream.open <- struct{}{}
	upstream.open <- struct{}{}
	require.Equal(t, 200, next(t, first).status)
	require.Equal(t, 200, next(t, second).status)
	upstream.open <- struct{}{}
	require.Equal(t, 200, next(t, put("3")).status)
}

// hazard W8
// A client that leaves does not end what the upstream has begun: the resource
// stays held until the upstream has answered.
func TestAClientThatLeaves(t *testing.T) {
	t.Parallel()
	p := newPair(t, "--wait", "2s")
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
	require.Eventually(t, func() bool { return next(t, p.put(p.b, "newer", 34)).status == 200 }, eventually, time.Millisecond)
	require.Equal(t, []string{"older", "newer"}, p.upstream.writes()[:2])
}

// One that leaves before it has sent everything leaves nothing behind: the
// upstream never gets the end.
func TestAClientThatLeavesInTheMiddleOfItsBody(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	require.NoError(t, p.half(p.a, "account/42", 33).Close())
	p.upstream.open <- struct{}{}
	require.Equal(t, 200, next(t, p.put(p.b, "newer", 34)).status)
	require.Equal(t, []string{"newer"}, p.upstream.writes())
}

// hazard W1
// A client that sleeps in the middle of its body keeps nobody waiting who comes
// to the same proxy.
func TestAClientThatSleepsInTheMiddleOfItsBody(t *testing.T) {
	t.Parallel()
	p := newPair(t, "--wait", "1m")
	conn := p.half(p.a, "account/42", 33)
	p.upstream.open <- struct{}{}
	require.Equal(t, 200, next(t, p.put(p.a, "newer", 34)).status)
	require.EqualValues(t, 412, p.a.line("refused")["status"])
	_, _ = io.WriteString(conn, "er") // it wakes up
	answer, _ := io.ReadAll(conn)
	require.Contains(t, string(answer), "412 Precondition Failed")
	require.Equal(t, []string{"newer"}, p.upstream.writes())
}
