//go:build unix

package main

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
)

// pair is two proxies before one upstream, over one store.
type pair struct {
	*testing.T
	upstream *gated
	a, b     *proxied
	pool     *pgxpool.Pool
	schema   string
	name     string // of the resource, in the store
}

func newPair(t *testing.T, args ...string) *pair {
	t.Helper()
	pool, schema := testenv.Postgres(t)
	args = append(append(args, postgresFlags(t, schema)...), "--resource", "account/{id}")
	upstream := newGated(t)
	return &pair{t, upstream, startProxy(t, upstream.URL, args...), startProxy(t, upstream.URL, args...), pool, schema, "account/42"}
}

// put sends a write of account/42 through one of the proxies.
func (p *pair) put(through *proxied, body string, number int64) <-chan reply {
	return async(p.T, "PUT", through.url+"/account/42", body, field(p.T, p.name, number, "h"+body)...)
}

// insist is put for a write that must get in.
func (p *pair) insist(through *proxied, body string, number int64) <-chan reply {
	return insist(p.T, "PUT", through.url+"/account/42", body, field(p.T, p.name, number, "h"+body)...)
}

const waitingSQL = "SELECT count(*) FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND NOT granted " +
	"AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()) AND pid IN (" +
	"SELECT pid FROM pg_catalog.pg_stat_activity WHERE application_name = 'fencepost proxy' AND query LIKE '%' || $1 || '%')"

// waits returns when a raise of a mark waits for older writers.
func (p *pair) waits() {
	p.Helper()
	require.Eventually(p, func() bool {
		var n int
		return p.pool.QueryRow(p.Context(), waitingSQL, p.schema).Scan(&n) == nil && n > 0
	}, eventually, 5*time.Millisecond)
}

// hazard W1
// hazard W12
func TestANewerTokenAtAnotherProxyWaitsUntilTheOlderIsOut(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	older := p.put(p.a, "older", 33)
	require.Equal(t, "older", next(t, p.upstream.arrived))
	newer := p.put(p.b, "newer", 34)
	p.waits()
	require.Empty(t, p.upstream.arrived, "the newer one is not sent while the older one is at work")
	p.upstream.open <- struct{}{}
	require.Equal(t, "applied older", next(t, older).body)
	require.Equal(t, "newer", next(t, p.upstream.arrived))
	p.upstream.open <- struct{}{}
	require.Equal(t, "applied newer", next(t, newer).body)
	require.Equal(t, "ProblemStale", next(t, p.put(p.a, "stale", 33)).problem)
	require.Equal(t, []string{"older", "newer"}, p.upstream.writes())
}

// hazard W1
// hazard W8
// While an older write is in the service, a newer one is told to come again, at both proxies:
// also if the client of the older one has left, and if its proxy is stopped for longer than
// every timeout. A client that stops in its body is told so too.
func TestAResourceIsHeldUntilTheServiceHasAnswered(t *testing.T) {
	t.Parallel()
	for name, disturb := range map[string]func(p *pair, client io.Closer){
		"nothing happens":      func(*pair, io.Closer) {},
		"the client leaves":    func(p *pair, client io.Closer) { require.NoError(p, client.Close()) },
		"the proxy is stopped": func(p *pair, _ io.Closer) { p.a.signal(syscall.SIGSTOP) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, "--wait", shortWait)
			older := p.begunAt(p.a, "older", 33)
			disturb(p, older)
			through := []*proxied{p.a, p.b}
			if name == "the proxy is stopped" {
				through = []*proxied{p.b, p.b}
			}
			for _, at := range through {
				newer := next(t, p.put(at, "newer", 34))
				require.Equal(t, 503, newer.status)
				require.Equal(t, "ProblemUnavailable", newer.problem)
				require.Equal(t, "1", newer.header.Get("Retry-After"))
			}
			require.Equal(t, 503, raw(t, p.b.address, "PUT /account/42 HTTP/1.1\r\nHost: x\r\nFencing-Token: "+field(t, p.name, 34, "hnewer")[1]+"\r\nContent-Length: 0\r\n\r\n"))
			require.Empty(t, p.upstream.arrived)
			p.a.signal(syscall.SIGCONT)
			p.upstream.open <- struct{}{}
			p.upstream.open <- struct{}{}
			require.Equal(t, 200, next(t, p.insist(p.b, "newer", 34)).status)
			require.Equal(t, []string{"older", "newer"}, p.upstream.writes())
		})
	}
}

// begunAt sends a write over a connection of its own, and returns when it is in the service.
func (p *pair) begunAt(through *proxied, body string, number int64) io.ReadCloser {
	p.Helper()
	for {
		conn := through.begun("PUT /account/42 HTTP/1.1\nHost: x\nFencing-Token: %s\nContent-Length: %d\n\n%s", field(p.T, p.name, number, "h"+body)[1], len(body), body)
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			_, _ = bufio.NewReader(conn).Peek(1)
		}()
		select {
		case arrived := <-p.upstream.arrived:
			require.Equal(p, body, arrived)
			return conn
		case <-answered: // a --wait that is short has passed on a busy machine
			conn.Close()
		}
	}
}

// The naive twins: each proxy has its own table of requests in flight, and does not hold the
// resource. In report-only mode not even the marks refuse.
func TestProxiesThatDoNotHoldLetTheOlderWriteLandLast(t *testing.T) {
	t.Parallel()
	_, prefix := testenv.Redis(t)
	for name, c := range map[string]struct {
		flags []string
		name  string
		stale int
	}{
		"Redis":       {[]string{"--store", testenv.RedisURL(t), "--resource", "/account/{id}=" + prefix + "/{id}"}, prefix + "/42", 412},
		"report only": {append(postgresStore(t), "--resource", "account/{id}", "--dangerously-report-only"), "account/42", 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := newGated(t)
			p := &pair{T: t, upstream: upstream, a: startProxy(t, upstream.URL, c.flags...), b: startProxy(t, upstream.URL, c.flags...), name: c.name}
			older := p.put(p.a, "older", 33)
			require.Equal(t, "older", next(t, upstream.arrived))
			newer := p.put(p.b, "newer", 34)
			require.Equal(t, "newer", next(t, upstream.arrived), "while the older one is at work")
			for range 3 {
				upstream.open <- struct{}{}
			}
			require.Equal(t, 200, next(t, older).status)
			require.Equal(t, 200, next(t, newer).status)
			require.Equal(t, c.stale, next(t, p.put(p.a, "stale", 33)).status)
		})
	}
}

// Requests under one token are in flight together, at both proxies, once the mark is
// the token's. Until then each request may raise the mark, and waits for the requests
// before it.
func TestOneTokenAtTwoProxies(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.upstream.open <- struct{}{}
	require.Equal(t, 200, next(t, p.put(p.a, "same", 33)).status)
	next(t, p.upstream.arrived)
	const requests = 6
	var answers []<-chan reply
	for i := range requests {
		answers = append(answers, p.put([]*proxied{p.a, p.b}[i%2], "same", 33))
	}
	for range requests {
		next(t, p.upstream.arrived)
	}
	for range requests {
		p.upstream.open <- struct{}{}
	}
	for _, answer := range answers {
		require.Equal(t, 200, next(t, answer).status)
	}
}

// The session that holds the resource is ended: by an operator, by the server, or by
// another program that guards the same resource with an idle timeout. The request to the
// upstream is cut off, and no client gets a response that reports it as applied.
func TestAnAdmissionThatEndsCutsTheUpstreamOff(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	older := p.put(p.a, "older", 33)
	next(t, p.upstream.arrived)
	var ended int
	require.NoError(t, p.pool.QueryRow(t.Context(), "SELECT "+p.schema+".evict('account/42', 34)").Scan(&ended))
	require.Equal(t, 1, ended)
	a := next(t, older)
	require.Equal(t, 502, a.status)
	require.Equal(t, "ProblemUnknown", a.problem)
	require.Contains(t, p.a.line("failed")["error"], "the admission has ended")
	p.a.line("the admission ended before its request: a newer caller may have been let in")
	require.Equal(t, "1", p.a.scrape()["store_errors_total"])
}

// The server's idle_in_transaction_session_timeout does not end an admission.
func TestAServersBoundOnIdleTransactions(t *testing.T) {
	t.Parallel()
	server := testenv.Database(t)
	require.Zero(t, execute(t, "migrate", "up", "--postgres", server).status)
	conn, err := pgx.Connect(t.Context(), server)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	u, err := url.Parse(server)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "ALTER DATABASE "+pgx.Identifier{u.Path[1:]}.Sanitize()+" SET idle_in_transaction_session_timeout = '50ms'")
	require.NoError(t, err)

	upstream := newGated(t)
	p := startProxy(t, upstream.URL, "--store", server, "--resource", "account/{id}")
	// If the server ends the session before the proxy has lifted the bound, the response is
	// a 503.
	put := insist(t, "PUT", p.url+"/account/42", "x", field(t, "account/42", 1, "a")...)
	next(t, upstream.arrived)
	twin, err := pgx.Connect(t.Context(), server)
	require.NoError(t, err)
	defer twin.Close(t.Context())
	_, err = twin.Exec(t.Context(), "BEGIN")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := twin.Exec(t.Context(), "SELECT")
		if err == nil {
			time.Sleep(100 * time.Millisecond) // the twin is idle
		}
		return err != nil
	}, eventually, time.Millisecond, "the naive twin is ended")
	var held int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "+
		"AND application_name = 'fencepost proxy' AND state = 'idle in transaction'").Scan(&held))
	require.Equal(t, 1, held)
	upstream.open <- struct{}{}
	require.Equal(t, 200, next(t, put).status)
}

// hazard W1
// A newer request to the same proxy ends the reading of an older one's body. The service
// never gets the older one.
func TestAClientThatSleepsInTheMiddleOfItsBody(t *testing.T) {
	t.Parallel()
	for name, store := range map[string][]string{"postgres": postgresStore(t), "memory": {"--dangerously-memory"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := newGated(t)
			p := startProxy(t, upstream.URL, append(store, "--resource", "account/{id}")...)
			conn := p.begun("PUT /account/42 HTTP/1.1\nHost: x\nFencing-Token: %s\nContent-Length: 5\n\nold", field(t, "account/42", 33, "half")[1])
			require.Eventually(t, func() bool { return p.scrape()["slots_in_use"] == "1" }, eventually, time.Millisecond)
			upstream.open <- struct{}{}
			require.Equal(t, 200, ask(t, "PUT", p.url+"/account/42", "newer", field(t, "account/42", 34, "b")...).status)
			answer, _ := io.ReadAll(conn)
			require.True(t, strings.HasPrefix(string(answer), "HTTP/1.1 412 "), string(answer))
			require.Equal(t, []string{"newer"}, upstream.writes())
		})
	}
}

// hazard W15
// A client that never sends the rest of its request, or never reads its answer, loses its slot
// after --timeout. Otherwise, with enough such clients, every guarded write would get a 503.
// The twin: before the timeout the client has its slot.
func TestAClientThatStallsKeepsNoSlot(t *testing.T) {
	t.Parallel()
	const half = " HTTP/1.1\nHost: x\nFencing-Token: %s\nContent-Length: 5\n\nx"
	for name, c := range map[string]struct{ request, timeout, wait string }{
		"a body that drips":                {"PUT /account/42" + half, "100ms", "2m"},
		"a write whose answer is not read": {"PUT /account/42/endless HTTP/1.1\nHost: x\nFencing-Token: %s\n\n", "3s", "2m"},
		"a read whose answer is not read":  {"GET /account/42/endless HTTP/1.1\nHost: x\nFencing-Token: %s\n\n", "2m", "2m"},
		"the twin":                         {"PUT /account/42" + half, "2m", "100ms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service, began := misbehaving(t)
			p := startProxy(t, service, "--dangerously-memory", "--resource", "account/{id}", "--timeout", c.timeout, "--wait", c.wait, "--max-in-flight", "1")
			conn := p.begun(c.request, field(t, "account/42", 1, "a")[1])
			switch name {
			case "a body that drips":
				answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err)
				require.Equal(t, 408, answer.StatusCode)
			case "the twin":
				require.Eventually(t, func() bool { return p.scrape()["slots_in_use"] == "1" }, eventually, time.Millisecond)
			default:
				require.Equal(t, "/account/42/endless", next(t, began))
			}
			write := func() int {
				return ask(t, "PUT", p.url+"/account/7", "x", field(t, "account/7", 1, "b")...).status
			}
			if name == "the twin" {
				require.Equal(t, 503, write())
				require.Equal(t, 200, ask(t, "GET", p.url+"/account/7", "").status, "what is not guarded takes no slot")
				p.ready() // although it is full
				require.Equal(t, "0", p.scrape()["store_errors_total"])
				return
			}
			for status := 0; status != 200; {
				status = write()
				require.Contains(t, []int{200, 408, 504}, status, "408 and 504: the machine is busy")
			}
		})
	}
}
