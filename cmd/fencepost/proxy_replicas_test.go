package main

import (
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
)

// pair is two proxies before one upstream, over one PostgreSQL.
type pair struct {
	*testing.T
	upstream *gated
	a, b     *proxied
	pool     *pgxpool.Pool
	schema   string
}

func newPair(t *testing.T, args ...string) *pair {
	t.Helper()
	pool, schema := testenv.Postgres(t)
	args = append(append(args, postgresFlags(t, schema)...), "--resource", "account/{id}")
	upstream := newGated(t)
	return &pair{t, upstream, startProxy(t, upstream.URL, args...), startProxy(t, upstream.URL, args...), pool, schema}
}

// put sends a write of account/42 through one of the proxies.
func (p *pair) put(through *proxied, body string, number int64) <-chan reply {
	return async(p.T, "PUT", through.url+"/account/42", body, field(p.T, "account/42", number, "h"+body)...)
}

// insist is put for a write that must get in.
func (p *pair) insist(through *proxied, body string, number int64) <-chan reply {
	return insist(p.T, "PUT", through.url+"/account/42", body, field(p.T, "account/42", number, "h"+body)...)
}

// half sends the first three bytes of "older", and returns when the upstream has
// the request's header.
func (p *pair) half(through *proxied, resource string, number int64) net.Conn {
	p.Helper()
	return through.begunAt(p.upstream.began, "PUT /account/42 HTTP/1.1\nHost: x\nFencing-Token: %s\nContent-Length: 5\n\nold",
		field(p.T, resource, number, "half")[1])
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
	stale := next(t, p.put(p.a, "stale", 33))
	require.Equal(t, 412, stale.status)
	require.Equal(t, "ProblemStale", stale.problem)
	require.Equal(t, []string{"older", "newer"}, p.upstream.writes())
}

// The naive twin: marks are compared, and the resource is not held.
func TestProxiesThatObserveLetTheOlderWriteLandLast(t *testing.T) {
	t.Parallel()
	p := newPair(t, "--dangerously-report-only")
	older := p.put(p.a, "older", 33)
	require.Equal(t, "older", next(t, p.upstream.arrived))
	newer := p.put(p.b, "newer", 34)
	require.Equal(t, "newer", next(t, p.upstream.arrived), "while the older one is at work")
	p.upstream.open <- struct{}{} // for the upstream's first waiting request
	p.upstream.open <- struct{}{}
	next(t, older)
	next(t, newer)
	p.upstream.open <- struct{}{}
	require.Equal(t, 200, next(t, p.put(p.a, "stale", 33)).status)
	require.Equal(t, "stale", p.upstream.writes()[2])
	require.Contains(t, p.a.line("reported")["error"], "stale token account/42#33")
}

// Requests under one token are in flight together, at both proxies, once the mark is
// the token's. Until then each request may raise the mark, and waits for the requests
// before it.
func TestOneTokenAtTwoProxies(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	first := p.put(p.a, "first", 33)
	next(t, p.upstream.arrived)
	p.upstream.open <- struct{}{}
	require.Equal(t, 200, next(t, first).status)
	const requests = 6
	answers := make(chan reply, requests)
	for i := range requests {
		a := async(t, "PUT", []*proxied{p.a, p.b}[i%2].url+"/account/42", "x", field(t, "account/42", 33, "hfirst")...)
		go func() { answers <- <-a }()
	}
	for range requests {
		select {
		case <-p.upstream.arrived:
		case a := <-answers:
			require.Failf(t, "one was answered before it was let in", "%+v", a)
		case <-time.After(eventually):
			require.FailNow(t, "nothing came")
		}
	}
	for range requests {
		p.upstream.open <- struct{}{}
	}
	for range requests {
		require.Equal(t, 200, next(t, answers).status)
	}
}

// When --wait has passed, no part of the newer request has reached the upstream. The older
// request still gets its response.
func TestANewerTokenIsToldToComeAgain(t *testing.T) {
	t.Parallel()
	p := newPair(t, "--wait", shortWait)
	older := p.insist(p.a, "older", 33)
	next(t, p.upstream.arrived)
	for _, through := range []*proxied{p.a, p.b} {
		newer := next(t, p.put(through, "newer", 34))
		require.Equal(t, 503, newer.status)
		require.Equal(t, "ProblemUnavailable", newer.problem)
		require.Equal(t, "1", newer.header.Get("Retry-After"))
	}
	require.Empty(t, p.upstream.arrived)
	p.upstream.open <- struct{}{}
	require.Equal(t, "applied older", next(t, older).body)
	require.Equal(t, []string{"older"}, p.upstream.writes())
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
