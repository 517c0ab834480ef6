package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

// curl runs the program, and returns what -w prints: a status for each URL.
func curl(t *testing.T, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("curl")
	require.NoError(t, err, "run `make setup`, which installs it where it can")
	out, err := exec.CommandContext(t.Context(), path,
		append([]string{"--silent", "--show-error", "--max-time", "60", "--noproxy", "*", "--output", "/dev/null"}, args...)...).CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}

// data returns curl's arguments for a body, or none. Over HTTP/2, curl 7.88 fails if the
// response arrives before it has sent the body, as a refusal may, although RFC 9113 §8.1
// requires clients to read such a response.
func data(body string) []string {
	if body == "" {
		return nil
	}
	return []string{"--data-binary", body}
}

// hazard W1
// The service is nginx, which stores the body of each PUT and does not read tokens. The
// client is curl.
func TestAServiceThatIsNotGo(t *testing.T) {
	t.Parallel()
	files := testenv.Nginx(t)
	p := startProxy(t, files, append(postgresStore(t), "--resource", "account/{id}")...)
	for name, version := range map[string][]string{
		"HTTP 1.0": {"--http1.0"}, "HTTP 1.1": {"--http1.1"}, "HTTP 1.1, one request a connection": {"--http1.1", "--header", "Connection: close"},
		"HTTP 2": {"--http2-prior-knowledge"}, "HTTP 2, asked for": {"--http2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := "/account/" + strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), ",", "")
			put := func(to, body string, number int64, version ...string) string {
				return curl(t, append(append(data(body), version...), "--request", "PUT", "--write-out", "%{http_code} %{content_type}",
					"--header", strings.Join(field(t, file[1:], number, "curl"), ": "), to+file)...)
			}
			require.Equal(t, "201", put(p.url, "older", 33, version...))
			require.Equal(t, "204", put(p.url, "newer", 34, version...))
			require.Equal(t, "412 application/problem+json", put(p.url, "", 33, version...))
			require.Equal(t, "newer", ask(t, "GET", p.url+file, "").body)
			require.Equal(t, "204", put(p.url, "newer still", 34, version...))
			require.Equal(t, "428 application/problem+json", curl(t, append(version, "--request", "PUT",
				"--write-out", "%{http_code} %{content_type}", p.url+file)...))
			require.Equal(t, "newer still", ask(t, "GET", files+file, "").body)

			require.Equal(t, "204", put(files, "stale", 33), "the naive twin: without the proxy")
			require.Equal(t, "stale", ask(t, "GET", files+file, "").body)
		})
	}
}

// One connection carries the requests of many tokens.
func TestConnectionsThatAreKept(t *testing.T) {
	t.Parallel()
	files := testenv.Nginx(t)
	cert, key := serverproc.Certificate(t)
	p := startProxy(t, files, append(postgresStore(t), "--resource", "account/{id}", "--tls-cert", cert, "--tls-key", key)...)
	for _, version := range []string{"--http1.1", "--http2"} {
		account := "account/kept" + version
		var args []string
		highest := int64(0)
		for i, number := range []int64{5, 7, 6, 7, 8, 5} {
			if i > 0 {
				args = append(args, "--next", "--silent", "--output", "/dev/null")
			}
			if highest = max(highest, number); number == highest {
				args = append(args, data(strings.Repeat("x", int(number)))...)
			}
			args = append(args, version, "--request", "PUT",
				"--write-out", `%{http_version}-%{http_code}-%{num_connects} `, "--header", strings.Join(field(t, account, number, "curl"), ": "),
				"--cacert", cert, "https://"+p.address+"/"+account)
		}
		v := map[string]string{"--http1.1": "1.1", "--http2": "2"}[version]
		require.Equal(t, strings.ReplaceAll("v-201-1 v-204-0 v-412-0 v-204-0 v-204-0 v-412-0", "v", v), curl(t, args...))
		require.Equal(t, "xxxxxxxx", ask(t, "GET", files+"/"+account, "").body)
	}
}

// If curl announces a body with Expect: 100-continue and the request is refused, the body
// is not sent.
func TestARefusalComesBeforeTheBody(t *testing.T) {
	t.Parallel()
	files := testenv.Nginx(t)
	p := startProxy(t, files, append(postgresStore(t), "--resource", "account/{id}")...)
	put := func(number int64) string {
		return curl(t, "--http1.1", "--expect100-timeout", "50", "--request", "PUT", "--header", "Expect: 100-continue", "--data-binary", strings.Repeat("x", 2000),
			"--write-out", "%{http_code} %{size_upload}", "--header", strings.Join(field(t, "account/1", number, "curl"), ": "), p.url+"/account/1")
	}
	require.Equal(t, "201 2000", put(2))
	require.Equal(t, "412 0", put(1))
}
