package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

// family is a metric of Prometheus' text format, with its samples by name and labels.
type family struct {
	name, kind, help string
	keys             []string
	samples          map[string]float64
}

var (
	helpLine   = regexp.MustCompile(`^# HELP ([a-z_]+) ([^\\]+)$`)
	typeLine   = regexp.MustCompile(`^# TYPE ([a-z_]+) (counter|gauge|histogram)$`)
	sampleLine = regexp.MustCompile(`^([a-z_]+)(\{[a-z_]+="(?:[^"\\\n]|\\[\\"n])*"(?:,[a-z_]+="(?:[^"\\\n]|\\[\\"n])*")*\})? (\d+|\d+\.\d+|\d\.?\d*e[+-]\d\d)$`)
)

// families parses the text format strictly: HELP, TYPE and samples of each family in this
// order, no sample twice, and nothing else.
func families(t *testing.T, text string) (all []*family) {
	t.Helper()
	require.True(t, strings.HasSuffix(text, "\n"))
	seen := map[string]bool{}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for len(lines) > 0 {
		help := helpLine.FindStringSubmatch(lines[0])
		require.NotNil(t, help, lines[0])
		kind := typeLine.FindStringSubmatch(lines[1])
		require.NotNil(t, kind, lines[1])
		require.Equal(t, help[1], kind[1])
		require.False(t, seen[help[1]], "%s is there twice", help[1])
		seen[help[1]] = true
		f := &family{name: help[1], kind: kind[2], help: help[2], samples: map[string]float64{}}
		for lines = lines[2:]; len(lines) > 0 && !strings.HasPrefix(lines[0], "#"); lines = lines[1:] {
			sample := sampleLine.FindStringSubmatch(lines[0])
			require.NotNil(t, sample, lines[0])
			suffix, ours := strings.CutPrefix(sample[1], f.name)
			require.True(t, ours, lines[0])
			require.True(t, suffix == "" || f.kind == "histogram", lines[0])
			value, err := strconv.ParseFloat(sample[3], 64)
			require.NoError(t, err)
			key := suffix + sample[2]
			require.NotContains(t, f.keys, key)
			f.keys, f.samples[key] = append(f.keys, key), value
		}
		require.NotEmpty(t, f.keys, f.name)
		all = append(all, f)
	}
	return all
}

// requireConventions checks a family against https://prometheus.io/docs/practices/naming/.
func requireConventions(t *testing.T, f *family) {
	t.Helper()
	require.True(t, strings.HasPrefix(f.name, "fencepost_"), f.name)
	require.Equal(t, f.kind == "counter", strings.HasSuffix(f.name, "_total"), f.name)
	if f.kind != "histogram" {
		return
	}
	require.True(t, strings.HasSuffix(f.name, "_seconds"), f.name)
	var last, bound float64
	for _, key := range f.keys[:len(f.keys)-2] {
		le := regexp.MustCompile(`^_bucket\{le="([^"]+)"\}$`).FindStringSubmatch(key)
		require.NotNil(t, le, key)
		next, err := strconv.ParseFloat(le[1], 64)
		require.NoError(t, err)
		require.Greater(t, next, bound)
		require.GreaterOrEqual(t, f.samples[key], last, "buckets are cumulative")
		bound, last = next, f.samples[key]
	}
	require.Equal(t, []string{`_bucket{le="+Inf"}`, "_sum", "_count"}, f.keys[len(f.keys)-3:])
	require.Equal(t, f.samples["_count"], last)
}

// scrape returns all samples by name and labels.
func (p *proxied) scrape() map[string]float64 {
	p.Helper()
	a := ask(p, "GET", "http://"+p.line("metrics")["address"].(string)+"/metrics", "")
	require.Equal(p, 200, a.status)
	require.Equal(p, "text/plain; version=0.0.4; charset=utf-8", a.header.Get("Content-Type"))
	samples := map[string]float64{}
	for _, f := range families(p.T, a.body) {
		requireConventions(p.T, f)
		for key, value := range f.samples {
			samples[f.name+key] = value
		}
	}
	return samples
}

// requireCounts requires that the counters of a label have these values, and the others 0.
func requireCounts(t *testing.T, samples map[string]float64, name string, want map[string]int) {
	t.Helper()
	found := map[string]int{}
	for key, value := range samples {
		if label, ours := strings.CutPrefix(key, name+"{"); ours && value != 0 {
			found[strings.Split(label, `"`)[1]] = int(value)
		}
	}
	require.Equal(t, want, found)
}

func TestMetricsCountRequestsByOutcome(t *testing.T) {
	t.Parallel()
	keys := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(keys, []byte("a MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n"), 0o600))
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/broken":
			panic(http.ErrAbortHandler)
		case "/partial":
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("half"))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/missing":
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(upstream.Close)
	p := startProxy(t, upstream.URL, append(postgresStore(t), "--resource", "account/{id}", "--metrics", "127.0.0.1:0", "--max-body", "10")...)
	put := func(path, body string, header ...string) int {
		return ask(t, "PUT", p.url+path, body, header...).status
	}
	require.Equal(t, 200, put("/account/42", "x", field(t, "account/42", 34, "b")...))
	require.Equal(t, 412, put("/account/42", "x", field(t, "account/42", 33, "a")...))
	require.Equal(t, 412, put("/account/42", "x", field(t, "account/42", 34, "other")...), "a collision")
	require.Equal(t, 428, put("/account/42", "x"))
	require.Equal(t, 400, put("/account/42", "x", "Fencing-Token", "!"))
	require.Equal(t, 400, put("/account//42", "x"))
	require.Equal(t, 500, put("/other", "x"))
	require.Equal(t, 413, put("/account/42", "longer than ten"))
	require.Equal(t, 404, ask(t, "GET", p.url+"/missing", "").status)
	require.Equal(t, 502, ask(t, "GET", p.url+"/broken", "").status)
	_, err := exchanged(prepared(t, "GET", p.url+"/partial", "", nil))
	require.Error(t, err)
	samples := p.scrape()
	requireCounts(t, samples, "fencepost_proxy_requests_total", map[string]int{
		"forwarded": 2, "stale": 2, "missing_token": 1, "malformed": 2, "no_route": 1, "too_large": 1, "upstream_error": 1, "cut_off": 1,
	})
	requireCounts(t, samples, "fencepost_proxy_upstream_errors_total", map[string]int{"bad_response": 1})
	require.EqualValues(t, 11, samples["fencepost_proxy_request_duration_seconds_count"])
	require.Positive(t, samples["fencepost_proxy_request_duration_seconds_sum"])
	require.EqualValues(t, 32, samples["fencepost_proxy_slots"])
	require.Zero(t, samples["fencepost_proxy_slots_in_use"])
	require.Zero(t, samples["fencepost_proxy_requests_in_flight"])
	require.Zero(t, samples["fencepost_proxy_store_errors_total"])

	signed := startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}", "--metrics", "127.0.0.1:0", "--signature-keys", keys)
	require.Equal(t, 403, ask(t, "PUT", signed.url+"/account/42", "x", field(t, "account/42", 34, "b")...).status)
	requireCounts(t, signed.scrape(), "fencepost_proxy_requests_total", map[string]int{"bad_signature": 1})
}

func TestMetricsCountRequestsInFlight(t *testing.T) {
	t.Parallel()
	upstream := newGated(t)
	p := startProxy(t, upstream.URL, append(postgresStore(t), "--resource", "account/{id}", "--metrics", "127.0.0.1:0", "--max-in-flight", "1", "--wait", shortWait)...)
	first := insist(t, "PUT", p.url+"/account/42", "x", field(t, "account/42", 34, "b")...)
	require.Equal(t, "x", next(t, upstream.arrived))
	before := p.scrape()["fencepost_proxy_requests_total{outcome=\"busy\"}"]
	require.Equal(t, 503, ask(t, "PUT", p.url+"/account/43", "y", field(t, "account/43", 34, "b")...).status)
	samples := p.scrape()
	require.EqualValues(t, 1, samples["fencepost_proxy_requests_in_flight"])
	require.EqualValues(t, 1, samples["fencepost_proxy_slots_in_use"])
	require.EqualValues(t, 1, samples["fencepost_proxy_slots"])
	require.Equal(t, before+1, samples["fencepost_proxy_requests_total{outcome=\"busy\"}"])
	upstream.open <- struct{}{}
	require.Equal(t, 200, next(t, first).status)
	require.EqualValues(t, 1, p.scrape()["fencepost_proxy_requests_total{outcome=\"forwarded\"}"])
}

func TestMetricsCountErrorsOfServers(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]func(t *testing.T) (flags []string, stop func()){
		"postgres": func(t *testing.T) ([]string, func()) {
			own := testenv.OwnPostgres(t)
			require.Zero(t, execute(t, "migrate", "up", "--postgres", own.URL()).status)
			return []string{"--store", own.URL()}, own.Kill
		},
		"redis": func(t *testing.T) ([]string, func()) {
			own := testenv.OwnRedis(t)
			return []string{"--store", "redis://" + own.Addr() + "?max_retries=-1"}, own.Kill
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flags, stop := store(t)
			// A listener that was closed may accept for a moment: a child that another test
			// has just forked has a copy of it until it calls exec.
			absent := "http://" + serverproc.Loopback(serverproc.FreePort(t))
			p := startProxy(t, absent, append(flags, "--resource", "account/{id}", "--metrics", "127.0.0.1:0", "--wait", shortWait)...)
			p.ready()
			stop()
			require.Equal(t, 503, ask(t, "PUT", p.url+"/account/42", "x", field(t, "account/42", 34, "b")...).status)
			require.Equal(t, 502, ask(t, "GET", p.url+"/account/42", "").status)
			samples := p.scrape()
			requireCounts(t, samples, "fencepost_proxy_requests_total", map[string]int{"store_error": 1, "upstream_error": 1})
			requireCounts(t, samples, "fencepost_proxy_upstream_errors_total", map[string]int{"unreachable": 1})
			require.EqualValues(t, 1, samples["fencepost_proxy_store_errors_total"])
		})
	}
}

func TestMetricsInReportOnlyMode(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(upstream.Close)
	p := startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}", "--metrics", "127.0.0.1:0", "--dangerously-report-only")
	require.Equal(t, 404, ask(t, "PUT", p.url+"/account/42", "x", field(t, "account/42", 34, "b")...).status)
	require.Equal(t, 404, ask(t, "PUT", p.url+"/account/42", "x", field(t, "account/42", 33, "a")...).status)
	require.Equal(t, 404, ask(t, "PUT", p.url+"/account/42", "x").status)
	samples := p.scrape()
	requireCounts(t, samples, "fencepost_proxy_requests_total", map[string]int{"forwarded": 3})
	require.EqualValues(t, 2, samples["fencepost_proxy_reported_total"])
}

// The page has a row for each metric, and the values of each label.
func TestThePageListsTheMetrics(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/proxy.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n## Metrics\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	upstream := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(upstream.Close)
	p := startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}", "--metrics", "127.0.0.1:0")
	var rows []string
	for _, f := range families(t, ask(t, "GET", "http://"+p.line("metrics")["address"].(string)+"/metrics", "").body) {
		rows = append(rows, fmt.Sprintf("`%s` | %s", f.name, f.kind))
		for _, key := range f.keys {
			if label := regexp.MustCompile(`^\{(outcome|reason)="(.+)"\}$`).FindStringSubmatch(key); label != nil {
				require.Contains(t, section, "`"+label[2]+"`", "a value of %s", label[1])
			}
		}
	}
	listed := []string{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`fencepost_[a-z_]+` \\| [a-z]+) \\|").FindAllStringSubmatch(section, -1) {
		listed = append(listed, row[1])
	}
	require.Equal(t, rows, listed)
}

func TestMetricsListenOnLoopback(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(upstream.Close)
	for _, flag := range []string{":0", "0"} {
		p := startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}", "--metrics", flag)
		require.True(t, strings.HasPrefix(p.line("metrics")["address"].(string), "127.0.0.1:"))
		require.Equal(t, 404, ask(t, "GET", "http://"+p.line("metrics")["address"].(string)+"/", "").status)
	}
	done := execute(t, "proxy", "--upstream", upstream.URL, "--listen", "127.0.0.1:0", "--dangerously-memory", "--resource", "account/{id}", "--metrics", "256.0.0.1:1")
	requireFailedLast(t, done, "--metrics: ")
}

// requireFailedLast is requireFailed for a command that has logged lines before.
func requireFailedLast(t *testing.T, done finished, text string) {
	t.Helper()
	require.Equal(t, 2, done.status, done.err)
	lines := strings.Split(strings.TrimSpace(done.err), "\n")
	require.Contains(t, lines[len(lines)-1], text)
}
