package main

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/serverproc"
)

// scrape returns the samples of /metrics by name and labels.
func (p *proxied) scrape() map[string]string {
	p.Helper()
	samples := map[string]string{}
	for line := range strings.Lines(ask(p, "GET", p.admin+"/metrics", "").body) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name != "#" {
			samples[strings.TrimPrefix(name, "fencepost_proxy_")] = value
		}
	}
	return samples
}

// counts waits until a request has ended with this answer. A client gets its answer before
// the request is counted.
func (p *proxied) counts(answer string, n string) {
	p.Helper()
	require.Eventually(p, func() bool { return p.scrape()[`requests_total{answer="`+answer+`"}`] == n }, eventually, time.Millisecond, "%s: %v", answer, p.log())
}

// misbehaving is a service that answers by the last segment of the path.
func misbehaving(t *testing.T) (url string, began <-chan string) {
	t.Helper()
	begun := make(chan string, 100)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			return
		}
		begun <- r.URL.Path
		switch filepath.Base(r.URL.Path) {
		case "missing":
			w.WriteHeader(http.StatusNotFound)
		case "silent":
			<-r.Context().Done()
		case "broken":
			panic(http.ErrAbortHandler)
		case "partial":
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("half"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "endless":
			for text := make([]byte, 1<<20); ; {
				if _, err := w.Write(text); err != nil {
					return
				}
			}
		}
	}))
	t.Cleanup(service.Close)
	return service.URL, begun
}

// What a client or the service does wrong, and the answer: to the client, in the metrics, and
// in the log. A request that the proxy answers itself never reached the service, except that
// a 502 and a 504 of a write say that its outcome is unknown.
func TestFaultsAndAnswers(t *testing.T) {
	t.Parallel()
	keys := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(keys, []byte("a MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n"), 0o600))
	// A listener that was closed may accept for a moment: a child that another test has just
	// forked has a copy of it until it calls exec.
	absent := "http://" + serverproc.Loopback(serverproc.FreePort(t))
	const put, get, chunked = "PUT /account/42", "GET /account/42", "Transfer-Encoding: chunked\n\n"
	own, stale, collision := field(t, "account/42", 34, "b")[1], field(t, "account/42", 33, "a")[1], field(t, "account/42", 34, "a")[1]
	own, stale, collision = "Fencing-Token: "+own+"\n", "Fencing-Token: "+stale+"\n", "Fencing-Token: "+collision+"\n"
	body := func(text string) string { return "Content-Length: 5\n\n" + text }
	for name, c := range map[string]struct {
		line, rest string // a request; if its body is not complete, the client waits
		answer     string // the status, or "cut" if the answer breaks off
		problem    string
		sent       bool   // to the service
		flags      string // besides --resource and --max-body
		upstream   string // if it is not the one that misbehaves
	}{
		"a write of the newest token":     {line: put, rest: own + body("write"), answer: "200", sent: true},
		"the service's own error":         {line: put + "/missing", rest: own + body("write"), answer: "404", sent: true},
		"a stale token":                   {line: put, rest: stale + body("write"), answer: "412", problem: "ProblemStale"},
		"a collision":                     {line: put, rest: collision + body("write"), answer: "412", problem: "ProblemStale"},
		"a stale claim":                   {line: get, rest: stale + "\n", answer: "412", problem: "ProblemStale"},
		"no token":                        {line: put, rest: body("write"), answer: "428", problem: "ProblemMissing"},
		"a malformed token":               {line: put, rest: "Fencing-Token: !\n" + body("write"), answer: "400", problem: "ProblemMalformed"},
		"a token without a signature":     {line: put, rest: own + body("write"), answer: "403", problem: "ProblemBadSignature", flags: "--signature-keys " + keys},
		"an ambiguous path":               {line: "PUT /account//42", rest: own + body("write"), answer: "400", problem: "ProblemMalformed"},
		"a field that changes the method": {line: get, rest: "X-HTTP-Method: PUT\n\n", answer: "400", problem: "ProblemMalformed"},
		"no route":                        {line: "PUT /other", rest: own + body("write"), answer: "500", problem: "ProblemUnknownResource"},
		"a body that is too long":         {line: put, rest: own + "Content-Length: 11\n\nlong enough", answer: "413"},
		"one without a length":            {line: put, rest: own + chunked + "b\nlong enough\n0\n\n", answer: "413"},
		"a malformed chunk":               {line: put, rest: own + chunked + "x\nwrite\n", answer: "400"},
		"a body that drips":               {line: put, rest: own + body("wri"), answer: "408", flags: "--timeout 100ms"},
		"a chunk that drips":              {line: put, rest: own + chunked + "5\nwri", answer: "408", flags: "--timeout 100ms"},
		"a claim whose body drips":        {line: get, rest: own + body("wri"), answer: "408", flags: "--timeout 100ms"},
		"a body that is announced":        {line: put, rest: own + "Expect: 100-continue\n" + body(""), answer: "408", flags: "--timeout 100ms"},
		"no token, and a body that drips": {line: put, rest: body("wri"), answer: "428", problem: "ProblemMissing"},
		"a write without an answer":       {line: put + "/silent", rest: own + body("write"), answer: "504", problem: "ProblemUnknown", flags: "--timeout 100ms"},
		"a read without an answer":        {line: get + "/silent", rest: "\n", answer: "504", flags: "--timeout 100ms"},
		"a write that breaks off":         {line: put + "/broken", rest: own + body("write"), answer: "502", problem: "ProblemUnknown", sent: true},
		"a read that breaks off":          {line: get + "/broken", rest: "\n", answer: "502", sent: true},
		"an answer that breaks off":       {line: put + "/partial", rest: own + body("write"), answer: "cut", sent: true},
		"a write that cannot be sent":     {line: put, rest: own + body("write"), answer: "502", upstream: absent},
		"a read that cannot be sent":      {line: get, rest: "\n", answer: "502", upstream: absent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service, began := misbehaving(t)
			if c.upstream != "" {
				service = c.upstream
			}
			p := startProxy(t, service, append(append(postgresStore(t), "--resource", "account/{id}", "--max-body", "10", "--access-log"), strings.Fields(c.flags)...)...)
			if c.problem == "ProblemStale" {
				require.Equal(t, 200, ask(t, "PUT", p.url+"/account/42", "x", field(t, "account/42", 34, "b")...).status)
				next(t, began)
			}
			conn := p.begun("%s", c.line+" HTTP/1.1\nHost: x\n"+c.rest)
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(eventually)))
			got := bufio.NewReader(conn)
			answer, err := http.ReadResponse(got, nil)
			for err == nil && answer.StatusCode == http.StatusContinue {
				answer, err = http.ReadResponse(got, nil)
			}
			if c.answer == "cut" {
				require.Error(t, err)
				p.counts("cut", "1")
				require.Equal(t, "/account/42/partial", p.line("cut off")["path"])
			} else {
				require.NoError(t, err)
				text, err := io.ReadAll(answer.Body)
				require.NoError(t, err)
				require.Equal(t, c.answer, answer.Status[:3], string(text))
				counted, message := "service", "passed"
				if answer.Header.Get("Content-Type") == "application/problem+json" {
					require.Contains(t, string(text), c.problem)
					require.Equal(t, c.problem == "", strings.Contains(string(text), `"type":"about:blank"`), string(text))
					if unsafe := c.line[:3] == "PUT"; unsafe {
						require.Equal(t, c.problem != "ProblemUnknown", strings.Contains(string(text), "Nothing was applied"), string(text))
					}
					counted, message = c.answer, map[bool]string{true: "failed", false: "refused"}[c.answer >= "500"]
				}
				p.counts(counted, "1")
				line := p.line(message)
				require.Equal(t, []any{float64(answer.StatusCode), strings.Fields(c.line)[1]}, []any{line["status"], line["path"]})
			}
			if c.sent {
				next(t, began)
			}
			if c.answer != "504" { // the time may be over before the request is sent
				require.Empty(t, began)
			}
			samples := p.scrape()
			require.Equal(t, []string{"0", "0", "32"}, []string{samples["store_errors_total"], samples["slots_in_use"], samples["slots"]})
		})
	}
}

// What ends a read that is in the service: its client, which is no fault of the service, and a
// newer token, if the read has one.
func TestAReadThatEndsEarly(t *testing.T) {
	t.Parallel()
	service, began := misbehaving(t)
	p := startProxy(t, service, append(postgresStore(t), "--resource", "account/{id}")...)
	left := p.begun("GET /account/42/silent HTTP/1.1\nHost: x\n\n")
	next(t, began)
	require.NoError(t, left.Close())
	p.counts("left", "1")

	older := async(t, "GET", p.url+"/account/42/silent", "", field(t, "account/42", 33, "a")...)
	next(t, began)
	require.Equal(t, 200, ask(t, "PUT", p.url+"/account/42", "x", field(t, "account/42", 34, "b")...).status)
	require.Equal(t, "ProblemStale", next(t, older).problem)
	p.counts("412", "1")
	for _, line := range p.log() {
		require.NotEqual(t, "failed", line["msg"])
	}
}
