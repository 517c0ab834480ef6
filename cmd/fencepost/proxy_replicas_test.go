package main

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
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
	args = append(args, "--store", testenv.PostgresURL(t), "--schema", schema, "--resource", "account/{id}")
	upstream := newGated(t)
	return &pair{t, upstream, startProxy(t, upstream.URL, args...), startProxy(t, upstream.URL, args...), pool, schema}
}

// put sends a write of account/42 through one of the two.
func (p *pair) put(through *proxied, body string, number int64) <-chan reply {
	return async(p.T, "PUT", through.url+"/account/42", body, field(p.T, "account/42", number, "h"+body)...)
}

// half sends the first three bytes of "older", and returns when the upstream has
// the request's header.
func (p *pair) half(through *proxied, resource string, number int64) net.Conn {
	p.Helper()
	conn, err := net.Dial("tcp", through.address)
	require.NoError(p, err)
	p.Cleanup(func() { conn.Close() })
	_, err = fmt.Fprintf(conn, "PUT /account/42 HTTP/1.1\r\nHost: x\r\nFencing-Token: %s\r\nContent-Length: 5\r\n\r\nold",
		field(p.T, resource, number, "half")[1])
	require.NoError(p, err)
	next(p.T, p.upstream.began)
	return conn
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
	p := newPair(t, "--wait", "1m")
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

// The naive twin: marks are compared, and nothing is held.
func TestProxiesThatObserveLetTheOlderWriteLandLast(t *testing.T) {
	t.Parallel()
	p := newPair(t, "--dangerously-observe")
	older := p.put(p.a, "older", 33)
	require.Equal(t, "older", next(t, p.upstream.arrived))
	newer := p.put(p.b, "newer", 34)
	require.Equal(t, "newer", next(t, p.upstream.arrived), "while the older one is at work")
	p.upstream.open <- struct{}{} // whichever takes it first
	p.upstream.open <- struct{}{}
	next(t, older)
	next(t, newer)
	p.upstream.open <- struct{}{}
	require.Equal(t, 200, next(t, p.put(p.a, "stale", 33)).status)
	require.Equal(t, "stale", p.upstream.writes()[2])
	require.Contains(t, p.a.line("observed")["error"], "stale token account/42#33")
}

// Requests under one token are in flight together, at both proxies, once the mark is
// the token's. Until then each may raise it, which takes its turn with those that
// are in.
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

// Past --wait nothing of the newer request has reached the upstream. The older
// one is answered all the same.
func TestANewerTokenIsToldToComeAgain(t *testing.T) {
	t.Parallel()
	p := newPair(t, "--wait", "2s")
	older := p.put(p.a, "older", 33)
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
