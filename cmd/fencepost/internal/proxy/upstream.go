package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"time"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/httpwrite"
)

func (p *proxy) newUpstream() http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(p.Upstream)
			r.Out.URL.RawQuery = r.In.URL.RawQuery
			if p.PreserveHost {
				r.Out.Host = r.In.Host
			}
			r.SetXForwarded()
			stripHeaders(r.Out.Header)
		},
		Transport: onceIfUnsafe{&http.Transport{
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: p.MaxInFlight,
			// Shorter than the upstream's own: a write on a connection that the upstream
			// closes at that moment has an unknown outcome.
			IdleConnTimeout:       2 * time.Second,
			TLSHandshakeTimeout:   10 * time.Second,
			ResponseHeaderTimeout: p.Timeout,
			DisableCompression:    true,
		}},
		ModifyResponse: func(r *http.Response) error {
			st := stateOf(r.Request.Context())
			st.answer, st.status = "service", r.StatusCode
			return nil
		},
		ErrorLog:     slog.NewLogLogger(p.log.Handler(), slog.LevelWarn),
		ErrorHandler: p.failed,
	}
}

// onceIfUnsafe keeps the Transport from sending an unsafe request twice.
type onceIfUnsafe struct{ *http.Transport }

func (t onceIfUnsafe) RoundTrip(r *http.Request) (*http.Response, error) {
	if httpwrite.IsSafe(r.Method) {
		return t.Transport.RoundTrip(r)
	}
	resp, _, err := httpwrite.SendOnce(t.Transport, r)
	return resp, err
}

var errTimeout = errors.New("the upstream did not answer in time")

// responseTime is how long a client may take to read the answer after --timeout.
const responseTime = time.Second

// forward returns when the upstream has answered, or has been cut off. A write ends after
// --timeout, and neither when the client leaves nor when a newer token comes: an upstream
// whose connection is closed may go on working for an unknown time.
func (p *proxy) forward(held context.Context, w http.ResponseWriter, r *http.Request, st *requestState) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer cancel(nil)
	defer context.AfterFunc(held, func() { cancel(context.Cause(held)) })()
	if !st.unsafe {
		defer context.AfterFunc(r.Context(), func() { cancel(context.Cause(r.Context())) })()
	} else {
		defer time.AfterFunc(p.Timeout, func() { cancel(errTimeout) }).Stop()
		control := http.NewResponseController(w)
		_ = control.SetWriteDeadline(time.Now().Add(p.Timeout + responseTime)) // a write to the client does not watch a context
		defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	}
	p.upstream.ServeHTTP(w, r.WithContext(ctx))
}

// failed answers a request that the upstream did not answer.
func (p *proxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	st := stateOf(r.Context())
	st.answer, st.status = "", 0
	status, problem, detail := http.StatusBadGateway, blank, "The service did not answer properly."
	if st.unsafe {
		problem = httpguard.ProblemUnknown
	}
	cause, dial := context.Cause(r.Context()), new(net.OpError)
	switch {
	case !st.unsafe && errors.Is(cause, guard.ErrStale):
		st.err = guard.WithCause(r.Context(), err)
		httpguard.Error(w, st.request, st.err)
		return
	case errors.Is(cause, context.Canceled):
		st.answer = "left"
	case errors.As(err, &dial) && dial.Op == "dial":
		problem, detail = blank, "The service cannot be reached."+nothingApplied
	case errors.Is(cause, errTimeout), os.IsTimeout(err):
		status, detail = http.StatusGatewayTimeout, "The service did not answer in time."
	}
	if problem == httpguard.ProblemUnknown {
		detail += " The write may or may not have been applied, or may still be. Acquire again, claim, and read before deciding."
	}
	st.respond(w, status, problem, detail, connect.WithCause(r.Context(), err))
}

const (
	blank          = "about:blank"
	nothingApplied = " Nothing was applied."
)

// respond writes an answer in the form of the Middleware's, and records err for the log.
func (st *requestState) respond(w http.ResponseWriter, status int, problem, detail string, err error) {
	st.err = err
	body, _ := json.Marshal(map[string]any{"type": problem, "title": http.StatusText(status), "status": status, "detail": detail}) // it cannot fail
	header := w.Header()
	header.Set("Content-Type", "application/problem+json")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	if status == http.StatusServiceUnavailable {
		header.Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
