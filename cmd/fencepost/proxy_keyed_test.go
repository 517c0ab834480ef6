package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

// keyedFlags are the flags of proxies that apply a keyed request once, in one schema.
func keyedFlags(t *testing.T) []string {
	t.Helper()
	_, schema := testenv.Postgres(t)
	return append(postgresFlags(t, schema), "--resource", "account/{id}", "--idempotency-caller", "X-Caller")
}

// keyed are the fields of a request of caller a under token 33, with the key k.
func keyed(t *testing.T, more ...string) []string {
	t.Helper()
	fields := map[string]string{"Idempotency-Key": `"k"`, "X-Caller": "a"}
	number := int64(33)
	for i := 0; i < len(more); i += 2 {
		if more[i] == "number" {
			number++
			continue
		}
		fields[more[i]] = more[i+1]
	}
	header := field(t, "account/42", number, "h")
	for name, value := range fields {
		if value != "" {
			header = append(header, name, value)
		}
	}
	return header
}

// counting is an upstream that counts its writes and answers them at once.
type counting struct {
	*httptest.Server
	writes atomic.Int64
}

func newCounting(t *testing.T, answer http.HandlerFunc) *counting {
	t.Helper()
	c := new(counting)
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		c.writes.Add(1)
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Location", "/made")
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		answer(w, r)
	}))
	t.Cleanup(c.Close)
	return c
}

func created(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusCreated)
	_, _ = io.Copy(w, r.Body)
}

func TestTheProxyAppliesAKeyedRequestOnce(t *testing.T) {
	t.Parallel()
	upstream := newCounting(t, created)
	flags := keyedFlags(t)
	one := startProxy(t, upstream.URL, append(flags, "--metrics", "127.0.0.1:0")...)
	two := startProxy(t, upstream.URL, flags...)
	first := ask(t, "POST", one.url+"/account/42", "x", keyed(t)...)
	require.Equal(t, 201, first.status, first.body)
	require.Equal(t, "a=b", first.header.Get("Set-Cookie"))
	for name, p := range map[string]*proxied{"the same proxy": one, "another": two} {
		again := ask(t, "POST", p.url+"/account/42", "x", keyed(t)...)
		require.Equal(t, 201, again.status, name)
		require.Equal(t, "x", again.body)
		require.Equal(t, "/made", again.header.Get("Location"))
		require.Empty(t, again.header.Get("Set-Cookie"), "it belongs to the first caller's answer")
	}
	require.Equal(t, 201, ask(t, "POST", two.url+"/account/42", "x", keyed(t, "number", "")...).status, "a successor's repeat")
	require.EqualValues(t, 1, upstream.writes.Load())

	for name, c := range map[string]struct {
		body    string
		header  []string
		status  int
		problem string
	}{
		"another body":          {"y", keyed(t, "number", ""), 422, "ProblemKeyReused"},
		"a malformed key":       {"x", keyed(t, "number", "", "Idempotency-Key", `"k`), 400, "ProblemMalformed"},
		"no caller":             {"x", keyed(t, "number", "", "X-Caller", ""), 500, ""},
		"a stale holder's":      {"x", keyed(t), 412, "ProblemStale"},
		"a key without a token": {"x", []string{"Idempotency-Key", "k", "X-Caller", "a"}, 428, "ProblemMissing"},
	} {
		a := ask(t, "POST", one.url+"/account/42", c.body, c.header...)
		require.Equal(t, c.status, a.status, "%s: %s", name, a.body)
		require.Equal(t, c.problem, a.problem, name)
	}
	require.EqualValues(t, 1, upstream.writes.Load())

	for writes, header := range [][]string{1: keyed(t, "number", "", "X-Caller", "b"), 2: keyed(t, "number", "", "Idempotency-Key", ""), 3: keyed(t, "number", "", "Idempotency-Key", "")} {
		if header != nil {
			require.Equal(t, 201, ask(t, "POST", one.url+"/account/42", "x", header...).status)
			require.EqualValues(t, writes+1, upstream.writes.Load(), "another caller, and requests without a key")
		}
	}
	metrics := ask(t, "GET", "http://"+one.line("metrics")["address"].(string)+"/metrics", "").body
	require.Contains(t, metrics, `fencepost_proxy_requests_total{outcome="replayed"} 1`)
	require.Contains(t, metrics, `fencepost_proxy_requests_total{outcome="key_refused"} 3`)
}

func TestARepeatAtAProxyWhileTheFirstIsAtWork(t *testing.T) {
	t.Parallel()
	upstream := newGated(t)
	p := startProxy(t, upstream.URL, keyedFlags(t)...)
	first := async(t, "POST", p.url+"/account/42", "x", keyed(t)...)
	require.Equal(t, "x", next(t, upstream.arrived))
	again := ask(t, "POST", p.url+"/account/42", "x", keyed(t)...)
	require.Equal(t, 409, again.status)
	require.Equal(t, "ProblemInProgress", again.problem)
	upstream.open <- struct{}{}
	require.Equal(t, "applied x", next(t, first).body)
	require.Equal(t, "applied x", ask(t, "POST", p.url+"/account/42", "x", keyed(t)...).body)
	require.Equal(t, []string{"x"}, upstream.writes())
}

// hazard W18
// The proxy is killed while the service works. A repeat, through another proxy, is not
// sent to the service again. The twin has no --idempotency-caller, and sends it.
func TestAProxyThatIsKilledBeforeItStoresTheAnswer(t *testing.T) {
	t.Parallel()
	for name, twin := range map[string]bool{"with keys": false, "the twin": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := newGated(t)
			flags := keyedFlags(t)
			if twin {
				flags = flags[:len(flags)-2]
			}
			a, b := startProxy(t, upstream.URL, flags...), startProxy(t, upstream.URL, flags...)
			async(t, "POST", a.url+"/account/42", "x", keyed(t)...)
			require.Equal(t, "x", next(t, upstream.arrived))
			require.NoError(t, a.cmd.Process.Kill())
			<-a.ended
			for range 2 { // a second request would not be held back
				upstream.open <- struct{}{}
			}
			again := ask(t, "POST", b.url+"/account/42", "x", keyed(t)...)
			if twin {
				require.Equal(t, 200, again.status)
				require.Eventually(t, func() bool { return len(upstream.writes()) == 2 }, eventually, 1e6)
				return
			}
			require.Equal(t, 500, again.status)
			require.Equal(t, "ProblemUnknown", again.problem)
			require.Eventually(t, func() bool { return len(upstream.writes()) == 1 }, eventually, 1e6)
			require.Len(t, upstream.began, 1, "nothing was sent again")
		})
	}
}

// Each first request has an answer that is lost, or that cannot be stored.
func TestAnAnswerThatIsNotStored(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		status int
	}{
		"no answer": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 502},
		"an answer too long": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", guard.MaxResult+1))
		}, 200},
		"an answer that fills the limit, and its header": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", guard.MaxResult))
		}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := newCounting(t, c.answer)
			p := startProxy(t, upstream.URL, keyedFlags(t)...)
			first := ask(t, "POST", p.url+"/account/42", "x", keyed(t)...)
			require.Equal(t, c.status, first.status)
			if c.status == 200 {
				require.GreaterOrEqual(t, len(first.body), guard.MaxResult, "the first caller gets all of it")
			}
			for range 2 {
				again := ask(t, "POST", p.url+"/account/42", "x", keyed(t)...)
				require.Equal(t, 500, again.status)
				require.Equal(t, "ProblemUnknown", again.problem)
			}
			require.EqualValues(t, 1, upstream.writes.Load())
		})
	}
}

// An outage of the service does not use up a key.
func TestAKeyWhileTheServiceIsDown(t *testing.T) {
	t.Parallel()
	upstream := newCounting(t, created)
	address := serverproc.Loopback(serverproc.FreePort(t))
	p := startProxy(t, "http://"+address, keyedFlags(t)...)
	down := ask(t, "POST", p.url+"/account/42", "x", keyed(t)...)
	require.Equal(t, 502, down.status)
	require.Contains(t, down.body, "Nothing was applied")

	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	server := &http.Server{Handler: upstream.Config.Handler}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
	for range 2 {
		require.Equal(t, 201, ask(t, "POST", p.url+"/account/42", "x", keyed(t)...).status)
	}
	require.EqualValues(t, 1, upstream.writes.Load())
}

// A client that stops in its body is answered 408, and its key is not recorded.
func TestAKeyedRequestThatIsNotComplete(t *testing.T) {
	t.Parallel()
	upstream := newCounting(t, created)
	flags := keyedFlags(t)
	short := startProxy(t, upstream.URL, append(flags, "--timeout", shortWait)...)
	conn, err := net.Dial("tcp", short.address)
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST /account/42 HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nX-Caller: a\r\nContent-Length: 5\r\nFencing-Token: "+
		field(t, "account/42", 33, "h")[1]+"\r\n\r\nhal")
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 408, resp.StatusCode)
	p := startProxy(t, upstream.URL, flags...)
	require.Equal(t, 201, ask(t, "POST", p.url+"/account/42", "x", keyed(t)...).status)
	require.EqualValues(t, 1, upstream.writes.Load())
}
