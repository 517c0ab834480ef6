package main

import (
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
)

// Somebody ends the session that holds: an operator, the server, or another
// program that guards the same resource and does not wait for ever. The request
// to the upstream is cut off, and nobody is told that it was applied.
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

// A server that ends what is idle in a transaction does not end an admission.
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
	put := async(t, "PUT", p.url+"/account/42", "x", field(t, "account/42", 1, "a")...)
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
