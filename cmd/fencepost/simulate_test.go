package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
)

// hazard G1
// hazard G2
func TestSimulateOnEmbeddedServers(t *testing.T) {
	t.Parallel()
	done := execute(t, "simulate", "--rounds", "2", "--json")
	require.Zero(t, done.status, done.err)
	requireReport(t, done.out, "redis (embedded)", "sqlite (embedded)")
	require.Empty(t, done.err)
	requireEmpty(t, done.temp)
}

func TestSimulateOnRealServers(t *testing.T) {
	t.Parallel()
	done := execute(t, "simulate", "--rounds", "2", "--json",
		"--redis", testenv.RedisURL(t), "--postgres", testenv.PostgresURL(t))
	require.Zero(t, done.status, done.err)
	requireReport(t, done.out, "redis", "postgres")
	requireEmpty(t, done.temp)
}

func TestSimulateOnEtcd(t *testing.T) {
	t.Parallel()
	url := testenv.OwnEtcd(t).URL()
	done := execute(t, "simulate", "--rounds", "2", "--json", "--etcd", url)
	require.Zero(t, done.status, done.err)
	requireReport(t, done.out, "etcd", "sqlite (embedded)")
	reply, err := http.Post(url+"/v3/kv/range", "", strings.NewReader(`{"key": "AA==", "range_end": "AA=="}`)) // all keys
	require.NoError(t, err)
	defer reply.Body.Close()
	var left struct {
		Header struct {
			Revision int `json:",string"`
		}
		Count string
	}
	require.NoError(t, json.NewDecoder(reply.Body).Decode(&left))
	require.Greater(t, left.Header.Revision, 8, "four ways of two rounds")
	require.Empty(t, left.Count, "the run removes its keys")
}

// requireReport requires exactly the documented JSON.
func requireReport(t *testing.T, out, issuer, store string) {
	t.Helper()
	naive := `","stale_attempted":2,"stale_accepted":2,"updates_lost":2,"refused":0},`
	expected := `{"rounds":2,"ttl_ms":100,"issuer":"` + issuer + `","store":"` + store + `","pause":"SIGSTOP","runs":[` +
		`{"name":"unguarded` + naive + `{"name":"recheck` + naive + `{"name":"check-then-write` + naive +
		`{"name":"guarded","stale_attempted":2,"stale_accepted":0,"updates_lost":0,"refused":2}]}` + "\n"
	require.Equal(t, expected, out)
}

func TestSimulateForPeople(t *testing.T) {
	t.Parallel()
	done := execute(t, "simulate", "--rounds", "1", "--ttl", "50ms")
	require.Zero(t, done.status, done.err)
	for _, text := range []string{
		"A gets the lock with #", "A: stopped", "A's lease is over", "A resumes", "checks the lease", "B writes 120 with #",
		": refused, below the mark", "account: balance 120", "A's write of 150 is accepted, and the balance is 150", "B+20",
		"check-then-write", "Verdict: the fence holds.", "(ttl 50ms)", "rounds of each: 1",
	} {
		require.Contains(t, done.out, text)
	}
	for line := range strings.Lines(done.out) {
		require.LessOrEqual(t, utf8.RuneCountInString(line), 100, line)
	}
	require.NotContains(t, done.out, "\x1b", "no colours in a pipe")
	require.Equal(t, "unguarded: 1 of 1 rounds\nrecheck: 1 of 1 rounds\ncheck-then-write: 1 of 1 rounds\nguarded: 1 of 1 rounds\n", done.err)
}
