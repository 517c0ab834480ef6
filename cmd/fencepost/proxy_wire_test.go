package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/testenv"
)

// noted is an upstream that notes what reaches it.
type noted struct {
	*httptest.Server
	mu   sync.Mutex
	seen []*http.Request
}

func newNoted(t *testing.T) *noted {
	t.Helper()
	n := &noted{}
	n.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		n.mu.Lock()
		n.seen = append(n.seen, r)
		n.mu.Unlock()
	}))
	t.Cleanup(n.Close)
	return n
}

// take returns what has come since it was asked last.
func (n *noted) take() []*http.Request {
	n.mu.Lock()
	defer n.mu.Unlock()
	seen := n.seen
	n.seen = nil
	return seen
}

// raw sends bytes and returns the status of the answer.
func raw(t *testing.T, address, text string) int {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	response.Body.Close()
	return response.StatusCode
}

// wire is a request with a token of account/42 and of order/7, as bytes.
func wire(t *testing.T, line string, fields ...string) string {
	both := field(t, "account/42", 1, "a")[1] + ", " + field(t, "order/7", 1, "a")[1] + ", " + field(t, "file/a/b", 1, "a")[1]
	lines := append([]string{line + " HTTP/1.1", "Host: service.example", "Fencing-Token: " + both, "Content-Length: 1", "Connection: close"}, fields...)
	return strings.Join(lines, "\r\n") + "\r\n\r\nx"
}

func TestPathsOnTheWire(t *testing.T) {
	t.Parallel()
	upstream := newNoted(t)
	p := startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}",
		"--resource", "PUT /orders/{id}/{rest...}=order/{id}", "--resource", "/files/{rest...}=file/{rest}", "--resource", "/tree/{$}=order/7")
	for line, want := range map[string]string{ // the target that reaches the upstream, or the status of the refusal
		"PUT /account/42":                        "/account/42",
		"PUT /account/42/":                       "/account/42/",
		"PUT /account/42/close?now=%2e%2e;x":     "/account/42/close?now=%2e%2e;x",
		"PUT /account/%34%32":                    "/account/%34%32",
		"PUT /%61ccount/42":                      "/%61ccount/42",
		"PUT http://other.example/account/42":    "/account/42",
		"put /account/42":                        "/account/42",
		"PUT /orders/7/lines/1":                  "/orders/7/lines/1",
		"PUT /files/a/b":                         "/files/a/b",
		"PUT /files/a/b/":                        "/files/a/b/",
		"PUT /account/43":                        "428",
		"PUT /account/042":                       "428",
		"PUT /account/42.":                       "428",
		"PUT /account/42%20":                     "428",
		"PUT /account/":                          "500",
		"PUT /account":                           "500",
		"PUT /Account/42":                        "500",
		"PUT /ACCOUNT/42":                        "500",
		"PUT /accounts/42":                       "500",
		"PUT /":                                  "500",
		"PUT /files/":                            "500",
		"PUT /tree":                              "500", // a ServeMux would redirect it
		"POST /orders/7/lines/1":                 "500",
		"put /orders/7/lines/1":                  "500",
		"PUT //account/42":                       "400",
		"PUT /account//42":                       "400",
		"PUT /account/1/../42":                   "400",
		"PUT /account/42/../43":                  "400",
		"PUT /account/42/%2e%2e/43":              "400",
		"PUT /account/42/.%2E/43":                "400",
		"PUT /account/42/./x":                    "400",
		"PUT /account/42%2f..%2f43":              "400",
		"PUT /account/42%2F":                     "400",
		"PUT /account/42%5c..%5c43":              "400",
		`PUT /account/42\..\43`:                  "400",
		"PUT /account/42;v=1":                    "400",
		"PUT /account/42%3bv=1":                  "400",
		"PUT /account/42%00":                     "400",
		"PUT /account/42%0d%0a":                  "400",
		"PUT /account/42%ff":                     "400",
		"PUT /account/42%252f..%252f43":          "400",
		"PUT /account/42/%c0%ae%c0%ae/43":        "400",
		"PUT /account/%zz":                       "400",
		"PUT *":                                  "400",
		"PUT http://other.example":               "400",
		"PUT account/42":                         "400",
		"CONNECT /account/42":                    "400",
		"CONNECT service.example:80":             "400",
		"OPTIONS *":                              "200", // the server's own answer
		"GET /account/42/../43":                  "400", // it claims, and nobody can say what
		"PUT /account/42 HTTP/1.1\r\nHost: more": "400",
	} {
		t.Run(line, func(t *testing.T) { // one after the other: the upstream is asked what came
			status := raw(t, p.address, wire(t, line))
			var reached []string
			for _, r := range upstream.take() {
				reached = append(reached, r.RequestURI)
			}
			if strings.HasPrefix(want, "/") {
				require.Equal(t, 200, status)
				require.Equal(t, []string{want}, reached)
				return
			}
			require.Equal(t, want, strconv.Itoa(status))
			require.Empty(t, reached)
		})
	}
}

// Without a token safe requests are nobody's business.
func TestSafeRequestsPassAsTheyAre(t *testing.T) {
	t.Parallel()
	upstream := newNoted(t)
	p := startProxy(t, upstream.URL+"/base", "--dangerously-memory", "--resource", "account/{id}", "--preserve-host")
	for _, target := range []string{"/account/42", "/a%2fb/;x?q=1;2&%zz", "/@scope%2fname", "/a/../b", "//x"} {
		for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
			require.Equal(t, 200, raw(t, p.address, method+" "+target+" HTTP/1.1\r\nHost: service.example\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n"), target)
			seen := upstream.take()
			require.Len(t, seen, 1)
			require.Equal(t, "/base"+target, seen[0].RequestURI)
			require.Equal(t, "service.example", seen[0].Host)
			require.Equal(t, []string{"127.0.0.1"}, seen[0].Header["X-Forwarded-For"], "the client's own word is not taken")
			require.Equal(t, "service.example", seen[0].Header.Get("X-Forwarded-Host"))
		}
	}
	require.Equal(t, 200, raw(t, p.address, "GET /other HTTP/1.1\r\nHost: x\r\nFencing-Token: !\r\n\r\n"), "no route, and safe: nobody reads the field")
	require.Equal(t, 400, raw(t, p.address, "GET /account/42 HTTP/1.1\r\nHost: x\r\nFencing-Token: !\r\n\r\n"))
}

func TestFieldsThatChangeARequest(t *testing.T) {
	t.Parallel()
	upstream := newNoted(t)
	p := startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}")
	for _, name := range []string{
		"X-HTTP-Method-Override", "x-http-method", "X-METHOD-OVERRIDE", "X_HTTP_Method_Override", "X-HTTP_Method-Override",
	} {
		for _, line := range []string{"GET /account/42", "HEAD /", "POST /account/42"} {
			require.Equal(t, 400, raw(t, p.address, wire(t, line, name+": DELETE")), "%s: %s", line, name)
			require.Empty(t, upstream.take())
		}
	}
	require.Equal(t, 200, raw(t, p.address, wire(t, "PUT /account/42",
		"X-Original-URL: /account/43", "X_Rewrite_Url: /account/43", "Fencing_Token: 9", "Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA")))
	seen := upstream.take()
	require.Len(t, seen, 1)
	for name := range seen[0].Header {
		require.NotContains(t, []string{"x-original-url", "x-rewrite-url", "upgrade"}, plainName(name))
		require.NotEqual(t, "fencing_token", strings.ToLower(name))
	}
	require.Len(t, seen[0].Header["Fencing-Token"], 1, "the token is for the upstream too")
}

func TestUnmatched(t *testing.T) {
	t.Parallel()
	upstream := newNoted(t)
	refusing := startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}")
	passing := startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}", "--dangerously-pass-unmatched")
	a := ask(t, "POST", refusing.url+"/other", "x")
	require.Equal(t, 500, a.status)
	require.Equal(t, "ProblemMount", a.problem)
	require.Empty(t, upstream.take())
	require.Contains(t, refusing.line("failed")["error"], "no --resource matches POST /other")
	require.Equal(t, 200, ask(t, "POST", passing.url+"/other", "x").status)
	require.Len(t, upstream.take(), 1)
	require.Equal(t, 428, ask(t, "POST", passing.url+"/account/42", "x").status)
	for _, disguise := range []string{"POST /other/../account/42", "POST //account/42", "POST /other/%2e%2e/account/42", "POST /account%2f42"} {
		require.Equal(t, 400, raw(t, passing.address, disguise+" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"), disguise)
	}
	require.Empty(t, upstream.take())
}

// nginx decodes before it resolves dots. What was admitted for account/1 is
// written to account/42 by whoever only puts a guard and a reverse proxy
// together.
func TestAPathThatIsAnotherOneToTheUpstream(t *testing.T) {
	t.Parallel()
	files := testenv.Nginx(t)
	target, err := url.Parse(files)
	require.NoError(t, err)
	mux := http.NewServeMux()
	guarded := httpguard.Middleware{Resources: httpguard.Pattern("account/{id}"), Store: new(guard.Memory), Window: new(httpguard.Window)}
	mux.Handle("/account/{id}/", guarded.Wrap(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}))
	naive := httptest.NewServer(mux)
	defer naive.Close()
	p := startProxy(t, files, "--dangerously-memory", "--resource", "account/{id}")
	mine := field(t, "account/1", 1, "a")[1]
	for _, disguise := range []string{"/account/1/%2e%2e/42", "/account/1/..%2f42"} {
		put := "PUT " + disguise + " HTTP/1.1\r\nHost: x\r\nFencing-Token: " + mine + "\r\nContent-Length: 5\r\nConnection: close\r\n\r\nmine!"
		require.Equal(t, 201, ask(t, "PUT", files+"/account/42", "yours").status)
		require.Equal(t, 400, raw(t, p.address, put))
		require.Equal(t, "yours", ask(t, "GET", files+"/account/42", "").body)
		require.Less(t, raw(t, naive.Listener.Addr().String(), put), 300)
		require.Equal(t, "mine!", ask(t, "GET", files+"/account/42", "").body, "the naive twin wrote to another resource than it was admitted for")
		require.Equal(t, 204, ask(t, "DELETE", files+"/account/42", "").status)
	}
}
