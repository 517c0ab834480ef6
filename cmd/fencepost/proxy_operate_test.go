package main

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/httpguard/signature"
	faults "github.com/fencepost/fencepost/internal/netfault"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
)

func TestTheEndWaitsForRequestsInFlight(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			upstream := newGated(t)
			p := startProxy(t, upstream.URL, append(postgresStore(t), "--resource", "account/{id}")...)
			p.ready()
			flying := async(t, "PUT", p.url+"/account/42", "late", field(t, "account/42", 33, "h")...)
			next(t, upstream.arrived)
			p.signal(s)
			require.EqualValues(t, 1, p.line("ending")["in_flight"])
			ready := ask(t, "GET", p.admin+"/readyz", "")
			require.Equal(t, 503, ready.status)
			require.Equal(t, "ending\n", ready.body)
			require.Equal(t, 200, ask(t, "GET", p.admin+"/livez", "").status)
			require.Eventually(t, func() bool {
				conn, err := net.Dial("tcp", p.address)
				if err == nil {
					conn.Close()
				}
				return err != nil
			}, eventually, time.Millisecond, "nothing listens")
			upstream.open <- struct{}{}
			require.Equal(t, "applied late", next(t, flying).body)
			require.Zero(t, p.status())
			p.line("ended")
		})
	}
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	upstream := newGated(t)
	p := startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}")
	flying := async(t, "PUT", p.url+"/account/42", "late", field(t, "account/42", 33, "h")...)
	next(t, upstream.arrived)
	p.signal(syscall.SIGTERM)
	p.line("ending")
	p.signal(syscall.SIGTERM)
	require.Equal(t, -1, p.status(), "by the signal")
	require.Zero(t, next(t, flying).status)
}

// Marks are durable before the upstream receives the request.
func TestMarksHoldWhenTheProxyIsKilled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		store []string
		stale int
	}{
		"in PostgreSQL":                   {postgresStore(t), 412},
		"the naive twin, in this process": {[]string{"--dangerously-memory"}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := newGated(t)
			args := append(c.store, "--resource", "account/{id}")
			p := startProxy(t, upstream.URL, args...)
			flying := async(t, "PUT", p.url+"/account/42", "newer", field(t, "account/42", 34, "b")...)
			next(t, upstream.arrived)
			require.NoError(t, p.cmd.Process.Kill())
			require.Zero(t, next(t, flying).status)
			p.status()
			p = startProxy(t, upstream.URL, args...)
			for range 20 {
				upstream.open <- struct{}{}
			}
			require.Equal(t, c.stale, ask(t, "PUT", p.url+"/account/42", "stale", field(t, "account/42", 33, "a")...).status)
			require.Equal(t, 200, ask(t, "PUT", p.url+"/account/42", "newest", field(t, "account/42", 35, "c")...).status, "an ended process holds nothing")
		})
	}
}

// The store does not answer, and answers again.
func TestAStoreThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
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
			if name == "postgres" { // whose write may raise a mark later
				require.Zero(t, pgtest.Query[int64](t, pool, "SELECT count(*) FROM "+schema+".marks"), "a probe raises none")
			}
			between.Blackhole(faults.Both)
			require.Equal(t, 503, ask(t, "GET", p.admin+"/readyz", "").status)
			require.Equal(t, 200, ask(t, "GET", p.admin+"/livez", "").status)
			refused := ask(t, "PUT", p.url+"/account/42", "x", field(t, prefix+"/42", 1, "a")...)
			require.Equal(t, 503, refused.status, "it fails closed")
			require.Equal(t, "ProblemUnavailable", refused.problem)
			require.Equal(t, 503, ask(t, "GET", p.url+"/account/42", "", field(t, prefix+"/42", 1, "a")...).status, "a claim")
			require.Equal(t, 200, ask(t, "GET", p.url+"/account/42", "").status)
			require.Len(t, upstream.take(), 1)
			between.Cut(faults.Both)
			errors := p.scrape()["store_errors_total"]
			require.Equal(t, 503, ask(t, "PUT", p.url+"/account/42", "x", field(t, prefix+"/42", 1, "a")...).status)
			require.NotEqual(t, errors, p.scrape()["store_errors_total"])
			between.Heal(faults.Both)
			p.ready()
			require.Equal(t, 404, ask(t, "GET", p.admin+"/", "").status)
		})
	}
}

// hazard W3
func TestTheLogSaysWhoOvertookWhomAndNoSecret(t *testing.T) {
	t.Parallel()
	_, schema := testenv.Postgres(t)
	store, err := url.Parse(testenv.PostgresURL(t))
	require.NoError(t, err)
	if _, given := store.User.Password(); !given { // servers without passwords accept any password
		store.User = url.UserPassword(store.User.Username(), "sekret")
	}
	secret, _ := store.User.Password()
	p := startProxy(t, newNoted(t).URL, "--store", store.String(), "--schema", schema, "--resource", "account/{id}")
	const mark = 987654321
	require.Equal(t, 200, ask(t, "PUT", p.url+"/account/42?key=query", "x", field(t, "account/42", mark, "successor")...).status)
	refused := ask(t, "PUT", p.url+"/account/42?key=query", "x", field(t, "account/42", 33, "worker 1")...)
	require.Equal(t, 412, refused.status)
	for _, text := range []string{"987654321", "successor"} { // the caller could copy the number
		require.NotContains(t, fmt.Sprint(refused), text)
	}
	line := p.line("refused")
	for name, want := range map[string]any{
		"level": "WARN", "method": "PUT", "path": "/account/42", "status": 412.0, "resources": []any{"account/42"}, "number": 33.0,
		"holder": "worker 1", "error": "guard: stale token account/42#33: overtaken by #987654321 of successor",
	} {
		require.Equal(t, want, line[name], name)
	}
	require.Equal(t, 428, ask(t, "PUT", p.url+"/account/42", "x").status)
	require.Equal(t, 400, ask(t, "PUT", p.url+"/account/42", "x", "Fencing-Token", "!").status)
	require.Equal(t, 412, ask(t, "PUT", p.url+"/account/42", "x", field(t, "account/42", 5, "worker 2")...).status)
	p.counts("412", "2")
	p.counts("400", "1")
	require.Len(t, p.log(), 6, "two of the start, and one for each refusal: %v", p.log())
	for _, line := range p.log() {
		for _, text := range []string{secret, "key=query"} {
			require.NotContains(t, fmt.Sprint(line), text)
		}
	}
}

func TestReportOnlyModeRefusesNothing(t *testing.T) {
	t.Parallel()
	for name, store := range map[string][]string{"postgres": postgresStore(t), "memory": {"--dangerously-memory"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := newNoted(t)
			p := startProxy(t, upstream.URL, append(store, "--resource", "account/{id}", "--dangerously-report-only")...)
			for _, header := range [][]string{
				field(t, "account/42", 34, "b"), field(t, "account/42", 33, "a"), {}, {"Fencing-Token", "!"}, {"X-HTTP-Method-Override", "DELETE"},
			} {
				require.Equal(t, 200, ask(t, "PUT", p.url+"/account/42", "x", header...).status)
			}
			for _, path := range []string{"/account/42/%2e%2e/43", "/other"} {
				require.Equal(t, 200, ask(t, "PUT", p.url+path, "x").status)
			}
			require.Len(t, upstream.take(), 7)
			p.counts("service", "7")
			require.Equal(t, "5", p.scrape()["reported_total"], "all but the first, and the last: %v", p.log())
			line := p.line("reported")
			require.Equal(t, []any{33.0, "a"}, []any{line["number"], line["holder"]})
		})
	}
}

// hazard W2
func TestSignatureKeysAreReadAgain(t *testing.T) {
	t.Parallel()
	keys := filepath.Join(t.TempDir(), "keys")
	write := func(ids ...string) {
		var text string
		for _, id := range ids {
			text += id + " " + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(id, 32))) + "\n"
		}
		require.NoError(t, os.WriteFile(keys, []byte(text), 0o600))
	}
	signed := func(id string, number int64) []string {
		keyring, err := signature.New(signature.Key{ID: id, Secret: []byte(strings.Repeat(id, 32))})
		require.NoError(t, err)
		tok, err := token.New("account/42", number, "h")
		require.NoError(t, err)
		s, err := keyring.Sign(tok, time.Time{})
		require.NoError(t, err)
		text, err := httpguard.FormatSigned(s)
		require.NoError(t, err)
		return []string{httpguard.Header, text}
	}
	write("one")
	upstream := newNoted(t)
	p := startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}", "--signature-keys", keys)
	put := func(header []string) reply { return ask(t, "PUT", p.url+"/account/42", "x", header...) }
	require.Equal(t, 200, put(signed("one", 1)).status)
	forged := put(field(t, "account/42", 999_999_999_999_999, "forged"))
	require.Equal(t, 403, forged.status)
	require.Equal(t, "ProblemBadSignature", forged.problem)
	require.Equal(t, 403, put(signed("two", 2)).status)

	write("two", "one")
	p.signal(syscall.SIGHUP)
	p.line("the keys were read again")
	require.Equal(t, 200, put(signed("two", 2)).status)
	require.Equal(t, 200, put(signed("one", 3)).status)

	require.NoError(t, os.WriteFile(keys, []byte("two not-base64!\n"), 0o600))
	p.signal(syscall.SIGHUP)
	p.line("the keys were not read again: the old ones stay")
	require.Equal(t, 200, put(signed("two", 4)).status)
	require.Equal(t, 403, put(field(t, "account/42", 5, "h")).status)

	naive := startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}")
	for _, number := range []int64{999_999_999_999_999, 5} {
		status := ask(t, "PUT", naive.url+"/account/42", "x", field(t, "account/42", number, "forged")...).status
		require.Equal(t, map[int64]int{999_999_999_999_999: 200, 5: 412}[number], status, "without keys one forged number locks out every holder")
	}
}
