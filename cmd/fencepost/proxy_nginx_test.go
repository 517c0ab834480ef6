package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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
	p := startProxy(t, files, append(postgresStore(t), "--resource", "account/{id}")...)
	for _, http2 := range []bool{false, true} {
		account := fmt.Sprintf("account/kept-%v", http2)
		dials := 0
		client := &http.Transport{Protocols: new(http.Protocols), DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			dials++
			return new(net.Dialer).DialContext(ctx, network, address)
		}}
		defer client.CloseIdleConnections()
		client.Protocols.SetUnencryptedHTTP2(http2)
		client.Protocols.SetHTTP1(!http2)
		for _, c := range []struct {
			number int64
			body   string
			status int
		}{{5, "five", 201}, {7, "seven", 204}, {6, "", 412}, {7, "seven", 204}, {8, "eight", 204}, {5, "", 412}} {
			response, err := client.RoundTrip(prepared(t, "PUT", p.url+"/"+account, c.body, field(t, account, c.number, "h")))
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, response.Body)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, c.status, response.StatusCode)
		}
		require.Equal(t, 1, dials)
		require.Equal(t, "eight", ask(t, "GET", files+"/"+account, "").body)
	}
}
