package routers_test

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/routers"
	"github.com/fencepost/fencepost/httpguard"
)

// curlAnswer is an answer as curl prints it.
type curlAnswer struct {
	status   int
	version  string
	connects int // connections that curl made for it
	kind     string
}

var writeOut = regexp.MustCompile(`(?m)^(\d{3}) ([\d.]+) (\d+)$`)

// curl returns a command that ignores the user's settings.
func curl(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	fixed := []string{"-q", "-sS", "--max-time", "120", "-w", `\n%{http_code} %{http_version} %{num_connects}\n`}
	return program(t, "curl", append(fixed, args...)...)
}

// parseCurl parses curl's output: for each answer the body, and then a line with status,
// version and connections.
func parseCurl(t *testing.T, out string) (all []curlAnswer) {
	t.Helper()
	from := 0
	for _, at := range writeOut.FindAllStringSubmatchIndex(out, -1) {
		var one curlAnswer
		one.status, _ = strconv.Atoi(out[at[2]:at[3]])
		one.version = out[at[4]:at[5]]
		one.connects, _ = strconv.Atoi(out[at[6]:at[7]])
		if body := strings.TrimSpace(out[from:at[0]]); strings.HasPrefix(body, "{") {
			one.kind = kind(t, []byte(body))
		}
		all, from = append(all, one), at[1]
	}
	require.NotEmpty(t, all, out)
	return all
}

// field returns the arguments that send a line of the field.
func field(line string) []string { return []string{"-H", httpguard.Header + ": " + line} }

func authority(t *testing.T, s *httptest.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	require.NoError(t, os.WriteFile(path, cert, 0o600))
	return path
}

func TestCurl(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args     []string
		tls      bool
		version  string
		connects int // for the second URL
	}{
		"over HTTP/1.1, kept alive":     {nil, false, "1.1", 0},
		"over HTTP/1.1, not kept alive": {[]string{"-H", "Connection: close"}, false, "1.1", 1},
		"over HTTP/1.0":                 {[]string{"--http1.0"}, false, "1", 1},
		"over HTTP/2":                   {[]string{"--http2-prior-knowledge"}, false, "2", 1},
		"over HTTP/1.1 and TLS":         {[]string{"--http1.1"}, true, "1.1", 0},
		"over HTTP/2 and TLS":           {[]string{"--http2"}, true, "2", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := open(t)
			service := routers.Chi(a, guarded(a.Fence))
			s, _ := listen(t, service)
			if c.tls {
				s = serve(t, service, true)
				c.args = append(c.args, "--cacert", authority(t, s))
			}
			twice := func(body string, lines ...string) []curlAnswer {
				args := append([]string{"-X", "PUT"}, c.args...)
				if body != "" {
					args = append(args, "-d", body)
				}
				for _, line := range lines {
					args = append(args, field(line)...)
				}
				url := s.URL + "/accounts/42"
				if c.version == "2" && !c.tls { // curl 7.88 fails at a second URL there, with every server
					again := output(t, curl(t, append(args, url)...))
					return parseCurl(t, again+output(t, curl(t, append(args, url)...)))
				}
				return parseCurl(t, output(t, curl(t, append(args, url, url)...)))
			}
			both := func(status int, kind string) []curlAnswer {
				return []curlAnswer{{status, c.version, 1, kind}, {status, c.version, c.connects, kind}}
			}
			// Refused requests have no body: if an answer over HTTP/2 comes before the
			// body, curl 7.88 treats the end of the stream as an error (RFC 9113 §8.1
			// forbids that).
			require.Equal(t, both(428, "ProblemMissing"), twice(""))
			require.Equal(t, both(204, ""), twice("100", line("account/42", 33)))
			require.Equal(t, both(204, ""), twice("110", line("account/42", 34)))
			require.Equal(t, both(412, "ProblemStale"), twice("", line("account/42", 33)))
			require.Equal(t, both(400, "ProblemMalformed"), twice("", "35"))
			require.Equal(t, both(204, ""), twice("120", line("account/7", 1), line("account/42", 34)))
			require.Equal(t, both(400, "ProblemMalformed"), twice("", line("account/42", 34), line("account/42", 34)))
			require.Equal(t, 120, balance(t, a))
		})
	}
}

// Folding is obsolete (RFC 9112 §5.2), and net/http still reads it as a space.
func TestCurlFoldsAField(t *testing.T) {
	t.Parallel()
	// hazard W5
	a := open(t)
	s, sent := listen(t, routers.Chi(a, guarded(a.Fence)))
	for folded, want := range map[string]curlAnswer{
		line("account/7", 1) + ",\r\n " + line("account/42", 33):  {204, "1.1", 1, ""},
		line("account/42", 33) + ",\r\n " + line("account/42", 9): {400, "1.1", 1, "ProblemMalformed"},
		"3\r\n " + line("account/42", 3):                          {400, "1.1", 1, "ProblemMalformed"},
	} {
		got := parseCurl(t, output(t, curl(t, append(field(folded), "-X", "PUT", "-d", "100", s.URL+"/accounts/42")...)))
		require.Equal(t, []curlAnswer{want}, got, folded)
		require.Contains(t, sent.String(), folded, "curl sends the folded field")
	}
}
