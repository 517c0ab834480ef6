package main

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	faults "github.com/fencepost/fencepost/internal/netfault"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

func TestReadinessAsksTheStore(t *testing.T) {
	t.Parallel()
	_, schema := testenv.Postgres(t)
	_, prefix := testenv.Redis(t)
	for name, server := range map[string]string{"postgres": testenv.PostgresURL(t), "redis": testenv.RedisURL(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, err := url.Parse(server)
			require.NoError(t, err)
			between, err := faults.Start(u.Host)
			require.NoError(t, err)
			defer between.Close()
			u.Host = between.Addr()
			if name == "redis" {
				u.RawQuery = "read_timeout=500ms&max_retries=-1" // or each of four attempts takes three seconds
			}
			upstream := newNoted(t)
			p := startProxy(t, upstream.URL, "--store", u.String(), "--schema", schema, "--resource", "/account/{id}="+prefix+"/{id}", "--wait", shortWait)
			p.ready()
			between.Blackhole(faults.Both)
			require.Equal(t, 503, ask(t, "GET", p.health+"/readyz", "").status)
			require.Equal(t, 200, ask(t, "GET", p.health+"/livez", "").status)
			refused := ask(t, "PUT", p.url+"/account/42", "x", field(t, prefix+"/42", 1, "a")...)
			require.Equal(t, 503, refused.status, "it fails closed")
			require.Equal(t, "ProblemUnavailable", refused.problem)
			require.Equal(t, 503, ask(t, "GET", p.url+"/account/42", "", field(t, prefix+"/42", 1, "a")...).status, "a claim")
			require.Equal(t, 200, ask(t, "GET", p.url+"/account/42", "").status)
			require.Len(t, upstream.take(), 1)
			between.Heal(faults.Both)
			p.ready()
			require.Equal(t, 404, ask(t, "GET", p.health+"/", "").status)
		})
	}
}

// A readiness probe writes nothing.
func TestReadinessRaisesNoMark(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	p := startProxy(t, newNoted(t).URL, "--store", testenv.PostgresURL(t), "--schema", schema, "--resource", "account/{id}")
	p.ready()
	var marks int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM "+schema+".marks").Scan(&marks))
	require.Zero(t, marks)
}
