package main

import (
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
		"A gets the lock with #", "A: stopped", "A's lease is over", "A resumes", "checks the lease in Redis", "B writes 120 with #",
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
