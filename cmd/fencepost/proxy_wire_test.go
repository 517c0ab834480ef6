package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

// noted is an upstream that records each request that it has received completely.
type noted struct {
	*httptest.Server
	mu   sync.Mutex
	seen []*http.Request
}

func newNoted(t *testing.T) *noted {
	t.Helper()
	n := &noted{}
	n.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		n.mu.Lock()
		n.seen = append(n.seen, r)
		n.mu.Unlock()
	}))
	t.Cleanup(n.Close)
	return n
}

// take returns the requests that have arrived since the last call.
func (n *noted) take() []*http.Request {
	n.mu.Lock()
	defer n.mu.Unlock()
	seen := n.seen
	n.seen = nil
	return seen
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
		"PUT /account/42%3Fv=1":                  "400",
		"PUT /account/42%3f":                     "400",
		"PUT /account/42%23v":                    "400",
		"PUT /account/42#v":                      "400",
		"PUT /account/42/%2e":                    "400",
		"PUT /account/42%25":                     "428",
		"PUT /account/42%253fv":                  "400",
		"PUT /account/42%25%33fv":                "400",
		"PUT /account/42%c0%af..%c0%af43":        "400",
		"PUT /account/42/%c0%bf":                 "400",
		"PUT /account/42%u003f":                  "400",
		"PUT /account/42%":                       "400",
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
		"GET /account/42/../43":                  "400", // it has a token, and its resource is ambiguous
		"PUT /account/42 HTTP/1.1\r\nHost: more": "400",
	} {
		t.Run(line, func(t *testing.T) { // not parallel: take returns the upstream's new requests
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

// Safe requests without a token pass unchanged.
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
	require.Equal(t, 431, ask(t, "GET", p.url+"/", "", "X-Long", strings.Repeat("x", 80<<10)).status)
	require.Equal(t, 200, raw(t, p.address, "GET /other HTTP/1.1\r\nHost: x\r\nFencing-Token: !\r\n\r\n"), "no route, and safe: the field is not read")
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
		require.NotContains(t, []string{"x-original-url", "x-rewrite-url", "upgrade"}, strings.ReplaceAll(strings.ToLower(name), "_", "-"))
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
	require.Equal(t, "ProblemUnknownResource", a.problem)
	require.NotContains(t, a.body, "middleware", "the caller cannot mount one")
	require.Contains(t, a.body, "Nothing was applied")
	require.Empty(t, upstream.take())
	require.Contains(t, refusing.line("httpguard: Resource not known")["error"], "no --resource matches POST /other")
	require.Equal(t, 200, ask(t, "POST", passing.url+"/other", "x").status)
	require.Len(t, upstream.take(), 1)
	require.Equal(t, 428, ask(t, "POST", passing.url+"/account/42", "x").status)
	for _, disguise := range []string{"POST /other/../account/42", "POST //account/42", "POST /other/%2e%2e/account/42", "POST /account%2f42"} {
		require.Equal(t, 400, raw(t, passing.address, disguise+" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"), disguise)
	}
	require.Empty(t, upstream.take())
}

// naiveProxy returns the address of a reverse proxy with the guard on one route.
func naiveProxy(t *testing.T, upstream, route string) string {
	t.Helper()
	target, err := url.Parse(upstream)
	require.NoError(t, err)
	mux := http.NewServeMux()
	guarded := httpguard.Middleware{Resources: httpguard.Pattern("account/{id}"), Store: new(guard.Memory), InFlight: new(httpguard.InFlight)}
	mux.Handle(route, guarded.Wrap(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// nginx decodes a path before it resolves dots. So if the guard passes such a path on
// unchanged, a request that was admitted for account/1 is written to account/42.
func TestAPathThatIsAnotherOneToTheUpstream(t *testing.T) {
	t.Parallel()
	files := testenv.Nginx(t)
	naive := naiveProxy(t, files, "/account/{id}/")
	p := startProxy(t, files, "--dangerously-memory", "--resource", "account/{id}")
	mine := field(t, "account/1", 1, "a")[1]
	for _, disguise := range []string{"/account/1/%2e%2e/42", "/account/1/..%2f42"} {
		put := "PUT " + disguise + " HTTP/1.1\r\nHost: x\r\nFencing-Token: " + mine + "\r\nContent-Length: 5\r\nConnection: close\r\n\r\nmine!"
		require.Equal(t, 201, ask(t, "PUT", files+"/account/42", "yours").status)
		require.Equal(t, 400, raw(t, p.address, put))
		require.Equal(t, "yours", ask(t, "GET", files+"/account/42", "").body)
		require.Less(t, raw(t, naive, put), 300)
		require.Equal(t, "mine!", ask(t, "GET", files+"/account/42", "").body, "the naive twin wrote to another resource than it was admitted for")
		require.Equal(t, 204, ask(t, "DELETE", files+"/account/42", "").status)
	}
}

// hazard W16
// A service may decode the whole target before it splits it at ? and #. It then writes
// account/42 for a path that was admitted as account/42?v, under the token of that name.
func TestAServiceThatDecodesFirst(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	rows := map[string]string{}
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		target, err := url.PathUnescape(r.RequestURI)
		if err != nil {
			return
		}
		row, _, _ := strings.Cut(target, "#")
		row, _, _ = strings.Cut(row, "?")
		mu.Lock()
		defer mu.Unlock()
		rows[path.Clean(strings.ReplaceAll(row, `\`, "/"))] = string(body)
	}))
	t.Cleanup(upstream.Close)
	row := func() string {
		mu.Lock()
		defer mu.Unlock()
		return rows["/account/42"]
	}
	naive := naiveProxy(t, upstream.URL, "/account/{id}")
	p := startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}")
	for segment, id := range map[string]string{
		"42%3Fv": "42?v", "42%23v": "42#v", "42%3f": "42?", "1%2F..%2F42": "1/../42", "1%5C..%5C42": `1\\..\\42`, "1%2f%2e%2e%2f42": "1/../42",
	} {
		put := fmt.Sprintf("PUT /account/%s HTTP/1.1\r\nHost: x\r\nFencing-Token: 1;r=\"account/%s\";h=\"a\"\r\nContent-Length: 5\r\nConnection: close\r\n\r\nmine!", segment, id)
		require.Equal(t, 200, ask(t, "PUT", upstream.URL+"/account/42", "yours").status)
		require.Equal(t, 400, raw(t, p.address, put), segment)
		require.Equal(t, "yours", row(), segment)
		require.Equal(t, 200, raw(t, naive, put), segment)
		require.Equal(t, "mine!", row(), "the naive twin wrote to another resource than it was admitted for: %s", segment)
	}
}

// hidden is a write of another account, without a token, in the body of a valid request.
const hidden = "PUT /account/43 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"

// Two servers may disagree on the end of a message, and some fields are read by one hop
// only. In each case the service receives at most the request that the proxy has admitted.
func TestHiddenFieldsOfARequestAreNotSentOn(t *testing.T) {
	t.Parallel()
	upstream := newNoted(t)
	p := startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}")
	tok := field(t, "account/42", 1, "a")[1]
	length := fmt.Sprintf("Content-Length: %d\r\n", len(hidden))
	for name, fields := range map[string]string{
		"both lengths":                      length + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"both lengths, the other way round": "Transfer-Encoding: chunked\r\n" + length + "\r\n0\r\n\r\n" + hidden,
		"a coding with a space":             length + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + hidden,
		"a coding with a tab":               length + "Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n" + hidden,
		"a coding with a vertical tab":      length + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + hidden,
		"a coding in two parts":             length + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + hidden,
		"two codings":                       "Transfer-Encoding: chunked\r\nTransfer-Encoding: cow\r\n\r\n0\r\n\r\n" + hidden,
		"two lengths":                       "Content-Length: 0\r\n" + length + "\r\n" + hidden,
		"two lengths in one field":          fmt.Sprintf("Content-Length: 0, %d\r\n\r\n%s", len(hidden), hidden),
		"a length with a sign":              "Content-Length: +0\r\n\r\n" + hidden,
		"a length in hexadecimal":           "Content-Length: 0x0\r\n\r\n" + hidden,
		"a length that is named a hop's":    "Connection: Content-Length\r\n" + length + "\r\n" + hidden,
		"a chunk with a long size":          "Transfer-Encoding: chunked\r\n\r\n00000000000000000\r\n\r\n" + hidden,
		"a chunk with a bare line feed":     "Transfer-Encoding: chunked\r\n\r\n0;x\n\r\n\r\n" + hidden,
		"a field folded":                    "X:\r\n Content-Length: 9\r\n" + length + "\r\n" + hidden,
		"a switch to HTTP/2":                "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n" + length + "\r\n" + hidden,
		"a switch to something else":        "Connection: Upgrade\r\nUpgrade: TLS/1.0\r\n" + length + "\r\n" + hidden,
		"a switch to a WebSocket":           "Connection: Upgrade\r\nUpgrade: websocket\r\n" + length + "\r\n" + hidden,
		"a token in a trailer": "Transfer-Encoding: chunked\r\nTrailer: Fencing-Token\r\n\r\n0\r\nFencing-Token: " +
			`9;r="account/43";h="z"` + "\r\n\r\n" + hidden,
		"a token that is named a hop's": "Connection: Fencing-Token\r\nContent-Length: 0\r\n\r\n" + hidden,
		"an expectation":                "Expect: 100-continue\r\n" + length + "\r\n" + hidden,
		"an expectation of none":        "Expect: 200-ok\r\nContent-Length: 0\r\n\r\n" + hidden,
	} {
		t.Run(name, func(t *testing.T) {
			conn := p.begun("PUT /account/42 HTTP/1.1\nHost: x\nFencing-Token: %s\n", tok)
			require.NoError(t, conn.SetDeadline(time.Now().Add(eventually)))
			_, err := io.WriteString(conn, fields)
			require.NoError(t, err)
			require.NoError(t, conn.(*net.TCPConn).CloseWrite())
			all, _ := io.ReadAll(conn) // a server that closes the connection may reset it
			seen := upstream.take()
			require.LessOrEqual(t, len(seen), 1, string(all))
			for _, r := range seen {
				require.Equal(t, "/account/42", r.RequestURI)
				require.Empty(t, r.Trailer.Get(httpguard.Header))
				require.Empty(t, r.Header.Get("Upgrade"))
				require.LessOrEqual(t, len(r.TransferEncoding), 1)
			}
		})
	}
}
