package main

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	faults "github.com/fencepost/fencepost/simulations/proxy"
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
			upstream := newNoted(t)
			p := startProxy(t, upstream.URL, "--store", u.String(), "--schema", schema, "--resource", "/account/{id}="+prefix+"/{id}", "--wait", "200ms")
			require.Equal(t, 200, ask(t, "GET", p.health+"/readyz", "").status)
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
			require.Eventually(t, func() bool { return ask(t, "GET", p.health+"/readyz", "").status == 200 }, eventually, 10*time.Millisecond)
			require.Equal(t, 404, ask(t, "GET", p.health+"/", "").status)
		})
	}
}

// To be ready is not to have written.
func TestReadinessRaisesNoMark(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	p := startProxy(t, newNoted(t).URL, "--store", testenv.PostgresURL(t), "--schema", schema, "--resource", "account/{id}")
	require.Equal(t, 200, ask(t, "GET", p.health+"/readyz", "").status)
	var marks int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM "+schema+".marks").Scan(&marks))
	require.Zero(t, marks)
}
