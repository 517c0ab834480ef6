package main

import (
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
)

// hazard W3
func TestTheLogHasTheRefusedTokenAndNeverTheMark(t *testing.T) {
	t.Parallel()
	upstream := newNoted(t)
	_, schema := testenv.Postgres(t)
	store, err := url.Parse(testenv.PostgresURL(t))
	require.NoError(t, err)
	if _, given := store.User.Password(); !given { // servers without passwords accept any password
		store.User = url.UserPassword(store.User.Username(), "sekret")
	}
	secret, _ := store.User.Password()
	p := startProxy(t, upstream.URL, "--store", store.String(), "--schema", schema, "--resource", "account/{id}", "--access-log")
	const mark = 987654321
	require.Equal(t, 200, ask(t, "PUT", p.url+"/account/42?key=query", "x", field(t, "account/42", mark, "successor")...).status)
	line := p.line("passed")
	require.Equal(t, "INFO", line["level"])
	require.EqualValues(t, 200, line["status"])

	require.Equal(t, 412, ask(t, "PUT", p.url+"/account/42?key=query", "x", field(t, "account/42", 33, "worker 1")...).status)
	line = p.line("refused")
	for name, want := range map[string]any{
		"level": "WARN", "method": "PUT", "path": "/account/42", "status": 412.0, "resource": "account/42", "number": 33.0,
		"holder": "worker 1", "error": "guard: stale token account/42#33: mark is newer",
	} {
		require.Equal(t, want, line[name], name)
	}
	for what, status := range map[string]int{"": 428, "!": 400, `5;r="account/42";h="successor"`: 412, fmt.Sprintf(`%d;r="account/42";h="other"`, mark): 412} {
		header := []string{"Fencing-Token", what}
		require.Equal(t, status, ask(t, "PUT", p.url+"/account/42", "x", header[:2*min(len(what), 1)]...).status)
	}
	require.Equal(t, 500, ask(t, "PUT", p.url+"/other", "x").status)
	p.line("failed")
	refused := 0
	for _, line := range p.log() {
		text := fmt.Sprint(line)
		require.NotContains(t, text, secret)
		require.NotContains(t, text, "key=query")
		if line["msg"] == "refused" || line["msg"] == "failed" {
			refused++
			own := line["number"] == float64(mark) // the collision's own number
			require.Equal(t, own, strings.Contains(text, "987654321") || strings.Contains(text, "9.87654321e+08"), text)
			require.Equal(t, line["holder"] == "successor", strings.Contains(text, "successor"), text)
		}
	}
	require.Equal(t, 6, refused, "one line for each: %v", p.log())
}

func TestTheLogIsQuietWithoutTheFlag(t *testing.T) {
	t.Parallel()
	p := startProxy(t, newNoted(t).URL, "--dangerously-memory", "--resource", "account/{id}")
	require.Equal(t, 200, ask(t, "PUT", p.url+"/account/42", "x", field(t, "account/42", 1, "a")...).status)
	require.Equal(t, 428, ask(t, "PUT", p.url+"/account/42", "x").status)
	p.line("refused")
	require.Len(t, p.log(), 3, "listening, health, and the refusal: %v", p.log())
}

func TestReportOnlyModeRefusesNothing(t *testing.T) {
	t.Parallel()
	upstream := newNoted(t)
	p := startProxy(t, upstream.URL, append(postgresStore(t), "--resource", "account/{id}", "--dangerously-report-only")...)
	for _, header := range [][]string{
		field(t, "account/42", 34, "b"), field(t, "account/42", 33, "a"), {}, {"Fencing-Token", "!"}, {"X-HTTP-Method-Override", "DELETE"},
	} {
		require.Equal(t, 200, ask(t, "PUT", p.url+"/account/42", "x", header...).status)
	}
	for _, path := range []string{"/account/42/%2e%2e/43", "/other"} {
		require.Equal(t, 200, ask(t, "PUT", p.url+path, "x").status)
	}
	require.Len(t, upstream.take(), 7)
	observed := func() (n int) {
		for _, line := range p.log() {
			if line["msg"] == "reported" {
				n++
			}
		}
		return n
	}
	p.signal(syscall.SIGTERM)
	require.Zero(t, p.status())
	require.Equal(t, 6, observed(), "all but the first, and the last but one twice: %v", p.log())
}
