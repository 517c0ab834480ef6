package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// metrics counts requests, for --metrics. It writes Prometheus' text format itself: with
// client_golang in go.mod, the module would raise four dependencies of every program that
// imports the library.
type metrics struct {
	requests       counters // by outcome
	upstreamErrors counters // by reason
	storeErrors    atomic.Uint64
	reported       atomic.Uint64
	durations      histogram
}

// The values of the label outcome.
const (
	outcomeForwarded      = "forwarded"
	outcomeStale          = "stale"
	outcomeMissingToken   = "missing_token"
	outcomeBadSignature   = "bad_signature"
	outcomeMalformed      = "malformed"
	outcomeNoRoute        = "no_route"
	outcomeBusy           = "busy"
	outcomeStoreError     = "store_error"
	outcomeUpstreamError  = "upstream_error"
	outcomeTooLarge       = "too_large"
	outcomeIncompleteBody = "incomplete_body"
	outcomeClientGone     = "client_gone"
	outcomeCutOff         = "cut_off"
)

// The values of the label reason.
const (
	reasonUnreachable = "unreachable"
	reasonTimeout     = "timeout"
	reasonBadResponse = "bad_response"
)

func newMetrics() *metrics {
	return &metrics{
		requests: newCounters(outcomeForwarded, outcomeStale, outcomeMissingToken, outcomeBadSignature, outcomeMalformed, outcomeNoRoute,
			outcomeBusy, outcomeStoreError, outcomeUpstreamError, outcomeTooLarge, outcomeIncompleteBody, outcomeClientGone, outcomeCutOff),
		upstreamErrors: newCounters(reasonUnreachable, reasonTimeout, reasonBadResponse),
		durations:      histogram{counts: make([]atomic.Uint64, len(durationBounds)+1)},
	}
}

// outcome returns how a request has ended.
func (st *requestState) outcome(a *recorder) string {
	switch {
	case !a.complete:
		return outcomeCutOff
	case st.answered: // also in report-only mode, whatever st.err is
		return outcomeForwarded
	case st.clientGone:
		return outcomeClientGone
	case errors.Is(st.err, guard.ErrStale), errors.Is(st.err, guard.ErrCollision):
		return outcomeStale
	case errors.Is(st.err, token.ErrMissing):
		return outcomeMissingToken
	case errors.Is(st.err, token.ErrBadSignature):
		return outcomeBadSignature
	case st.storeFailed:
		return outcomeStoreError
	}
	switch a.status {
	case http.StatusServiceUnavailable:
		return outcomeBusy
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return outcomeUpstreamError
	case http.StatusRequestEntityTooLarge:
		return outcomeTooLarge
	case http.StatusInternalServerError:
		return outcomeNoRoute
	}
	if a.status == http.StatusRequestTimeout || st.body.readError() != nil {
		return outcomeIncompleteBody
	}
	return outcomeMalformed
}

// requestEnd counts a request that has ended.
func (m *metrics) requestEnd(st *requestState, a *recorder) {
	m.requests.inc(st.outcome(a))
	m.durations.observe(time.Since(st.begun))
}

// storeFailed counts an error of the store.
func (m *metrics) storeFailed(st *requestState) {
	m.storeErrors.Add(1)
	st.storeFailed = true
}

// upstreamFailed counts an error of the upstream, by the answer that it leads to.
func (m *metrics) upstreamFailed(pr problem) {
	switch {
	case pr.Status == http.StatusGatewayTimeout:
		m.upstreamErrors.inc(reasonTimeout)
	case pr == problemUnreachable:
		m.upstreamErrors.inc(reasonUnreachable)
	default:
		m.upstreamErrors.inc(reasonBadResponse)
	}
}

// countedStore counts the errors of a store that the Middleware calls.
type countedStore struct {
	guard.Store
	metrics *metrics
}

var _ guard.Identified = countedStore{}

// Identity implements [guard.Identified], as a wrapper must: proxies with the same marks
// share a table of requests in flight.
func (s countedStore) Identity() any {
	if store, ok := s.Store.(guard.Identified); ok {
		return store.Identity()
	}
	return s.Store
}

// Admit implements [guard.Store].
func (s countedStore) Admit(ctx context.Context, tok token.Token) error {
	err := s.Store.Admit(ctx, tok)
	if err != nil && !guard.IsRefusal(err) && ctx.Err() == nil {
		s.metrics.storeFailed(stateOf(ctx))
	}
	return err
}

// counters has a counter for each value of a label.
type counters struct {
	values []string
	counts map[string]*atomic.Uint64
}

func newCounters(values ...string) counters {
	c := counters{values, map[string]*atomic.Uint64{}}
	for _, value := range values {
		c.counts[value] = new(atomic.Uint64)
	}
	return c
}

func (c counters) inc(value string) { c.counts[value].Add(1) }

// durationBounds are the upper bounds of the buckets, in seconds: the default buckets of
// Prometheus' clients, and two around the default --timeout.
var durationBounds = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

type histogram struct {
	counts []atomic.Uint64 // by bucket, the last one without a bound
	sum    atomic.Int64    // nanoseconds
}

func (h *histogram) observe(d time.Duration) {
	bucket, _ := slices.BinarySearch(durationBounds, d.Seconds())
	h.counts[bucket].Add(1)
	h.sum.Add(int64(d))
}

// textFormat is the content type of Prometheus' text format:
// https://prometheus.io/docs/instrumenting/exposition_formats
const textFormat = "text/plain; version=0.0.4; charset=utf-8"

// exposition writes metrics in the text format.
type exposition struct{ strings.Builder }

func (e *exposition) family(name, kind, help string) {
	fmt.Fprintf(e, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (e *exposition) value(name, kind, help string, value uint64) {
	e.family(name, kind, help)
	fmt.Fprintf(e, "%s %d\n", name, value)
}

func (e *exposition) counters(name, label, help string, c counters) {
	e.family(name, "counter", help)
	for _, value := range c.values {
		fmt.Fprintf(e, "%s{%s=\"%s\"} %d\n", name, label, value, c.counts[value].Load())
	}
}

func (e *exposition) histogram(name, help string, h *histogram) {
	e.family(name, "histogram", help)
	var count uint64
	for i := range h.counts {
		bound := "+Inf"
		if i < len(durationBounds) {
			bound = strconv.FormatFloat(durationBounds[i], 'g', -1, 64)
		}
		count += h.counts[i].Load()
		fmt.Fprintf(e, "%s_bucket{le=\"%s\"} %d\n", name, bound, count)
	}
	fmt.Fprintf(e, "%s_sum %g\n%s_count %d\n", name, time.Duration(h.sum.Load()).Seconds(), name, count)
}

// escaped escapes the value of a label.
var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (e *exposition) buildInfo() {
	version := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	e.family("fencepost_build_info", "gauge", "The version of the program; the value is always 1.")
	fmt.Fprintf(e, "fencepost_build_info{version=\"%s\",goversion=\"%s\"} 1\n", escaped.Replace(version), escaped.Replace(runtime.Version()))
}

// exposition returns all metrics.
func (p *proxy) exposition() string {
	var e exposition
	m := p.log.metrics
	e.counters("fencepost_proxy_requests_total", "outcome", "Requests that have ended, by outcome.", m.requests)
	e.value("fencepost_proxy_reported_total", "counter", "Refusals that report-only mode has logged and not made.", m.reported.Load())
	e.value("fencepost_proxy_requests_in_flight", "gauge", "Requests that have not ended.", uint64(max(0, p.running.Load())))
	e.value("fencepost_proxy_slots_in_use", "gauge", "Guarded requests in flight, at most fencepost_proxy_slots.", uint64(len(p.slots)))
	e.value("fencepost_proxy_slots", "gauge", "The value of --max-in-flight.", uint64(cap(p.slots)))
	e.histogram("fencepost_proxy_request_duration_seconds", "Time from a request's header to the end of its answer.", &m.durations)
	e.counters("fencepost_proxy_upstream_errors_total", "reason", "Requests that the service did not answer, by reason.", m.upstreamErrors)
	e.value("fencepost_proxy_store_errors_total", "counter", "Errors of the store of marks.", m.storeErrors.Load())
	e.buildInfo()
	return e.String()
}

// metricsAddress returns the address to listen on. A port without a host is on loopback,
// because metrics need no other protection then.
func metricsAddress(flag string) string {
	if host, port, err := net.SplitHostPort(flag); err == nil && host == "" {
		return net.JoinHostPort("127.0.0.1", port)
	}
	if _, err := strconv.ParseUint(flag, 10, 16); err == nil {
		return net.JoinHostPort("127.0.0.1", flag)
	}
	return flag
}

func (p *proxy) serveMetrics(failed chan<- error) (*http.Server, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", textFormat)
		_, _ = io.WriteString(w, p.exposition())
	})
	return p.serveAside("metrics", "--metrics", metricsAddress(p.Metrics), mux, failed)
}
