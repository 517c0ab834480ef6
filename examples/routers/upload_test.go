package routers_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/routers"
)

// marked is a balance that can be found in recorded requests.
const marked = "987654321"

func TestCurlUploadsInChunks(t *testing.T) {
	t.Parallel()
	a := open(t)
	s, sent := listen(t, routers.Chi(a, guarded(a.Fence)))
	for _, c := range []struct {
		args   []string
		number int
		want   curlAnswer
	}{
		{nil, 33, curlAnswer{204, "1.1", 1, ""}},
		{[]string{"-H", "Expect:"}, 34, curlAnswer{204, "1.1", 1, ""}},
		{[]string{"--http2-prior-knowledge"}, 35, curlAnswer{204, "2", 1, ""}},
		{nil, 34, curlAnswer{412, "1.1", 1, "ProblemStale"}},
		{[]string{"-H", "Expect:"}, 34, curlAnswer{412, "1.1", 1, "ProblemStale"}}, // over HTTP/2: see TestCurl
	} {
		cmd := curl(t, append(append(c.args, field(line("account/42", c.number))...), "-T", "-", s.URL+"/accounts/42")...)
		cmd.Stdin = io.MultiReader(strings.NewReader(marked[:4]), strings.NewReader(marked[4:]))
		require.Equal(t, []curlAnswer{c.want}, parseCurl(t, output(t, cmd)), c.args)
	}
	require.Equal(t, 987654321, balance(t, a))
	require.Contains(t, sent.String(), "Transfer-Encoding: chunked")
}

// A client that sends Expect: 100-continue is refused before it has sent its body.
func TestCurlExpectsToBeAskedForTheBody(t *testing.T) {
	t.Parallel()
	// judging reads the body before it checks the token.
	judging := func(wrap middleware) middleware {
		return func(next http.Handler) http.Handler {
			guarded := wrap(next)
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				assert.NoError(t, err)
				r.Body = io.NopCloser(strings.NewReader(string(body)))
				guarded.ServeHTTP(w, r)
			})
		}
	}
	for name, c := range map[string]struct {
		lines []string
		naive bool
		want  curlAnswer
		sent  bool
	}{
		"admitted":                       {[]string{line("account/42", 34)}, false, curlAnswer{204, "1.1", 1, ""}, true},
		"stale":                          {[]string{line("account/42", 32)}, false, curlAnswer{412, "1.1", 1, "ProblemStale"}, false},
		"without a token":                {nil, false, curlAnswer{428, "1.1", 1, "ProblemMissing"}, false},
		"malformed":                      {[]string{"33"}, false, curlAnswer{400, "1.1", 1, "ProblemMalformed"}, false},
		"stale, where the body is first": {[]string{line("account/42", 32)}, true, curlAnswer{412, "1.1", 1, "ProblemStale"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := open(t)
			service := routers.Chi(a, guarded(a.Fence))
			if c.naive {
				service = judging(none)(service)
			}
			s, sent := listen(t, service)
			require.Equal(t, http.StatusNoContent, put(t, s, "/accounts/42", "1", line("account/42", 33)).status)
			args := []string{"-X", "PUT", "-d", marked, "-H", "Expect: 100-continue", "--expect100-timeout", "100"}
			for _, line := range c.lines {
				args = append(args, field(line)...)
			}
			require.Equal(t, []curlAnswer{c.want}, parseCurl(t, output(t, curl(t, append(args, s.URL+"/accounts/42")...))))
			require.Contains(t, sent.String(), "Expect: 100-continue")
			require.Equal(t, c.sent, strings.Contains(sent.String(), marked))
		})
	}
}
