package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/httpwrite"
)

func parseUpstream(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, errors.New("--upstream: not an http:// or https:// URL")
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return nil, errors.New("--upstream: a scheme, a host and a path, and nothing else")
	}
	return u, nil
}

func (p *proxy) newUpstream(target *url.URL) http.Handler {
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
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
			ExpectContinueTimeout: time.Second,
			ResponseHeaderTimeout: p.Timeout,
			DisableCompression:    true,
		}},
		ModifyResponse: func(r *http.Response) error {
			st := stateOf(r.Request.Context())
			if !st.bounded && !st.limit.end() {
				return errTimeout
			}
			st.answered = true
			return nil
		},
		ErrorLog:     p.log.standard(),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) { p.failed(w, r, err) },
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		st := stateOf(r.Context())
		// After GotConn a part of the request may have been sent.
		trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { st.sent.Store(true) }}
		ctx, cancel := context.WithCancelCause(httptrace.WithClientTrace(r.Context(), trace))
		defer cancel(nil)
		st.limit = newTimeLimit(p.Timeout, w, st.body, cancel)
		defer st.limit.end()
		forward.ServeHTTP(w, r.WithContext(ctx))
	})
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

// failed answers a request that the upstream did not answer.
func (p *proxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	st := stateOf(r.Context())
	if st.body.readError() != nil {
		st.incomplete(w, err)
		return
	}
	cause := context.Cause(r.Context())
	var timeout net.Error
	pr := problemBadGateway
	switch {
	case errors.Is(cause, errTimeout), errors.As(err, &timeout) && timeout.Timeout():
		pr = problemGatewayTimeout
	case !st.sent.Load():
		pr = problemUnreachable
	}
	st.clientGone = errors.Is(cause, context.Canceled)
	if cause == nil || errors.Is(cause, errTimeout) { // otherwise the proxy itself has ended the request
		p.log.metrics.upstreamFailed(pr)
	}
	if cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	if st.unsafe && st.sent.Load() {
		pr = pr.unknown()
	}
	pr.write(w, st, err)
}

// incomplete answers a request whose end the upstream did not get.
func (st *requestState) incomplete(w http.ResponseWriter, err error) {
	var long *http.MaxBytesError
	cause := context.Cause(st.request.Context())
	switch {
	case errors.As(st.body.readError(), &long):
		problemTooLarge.write(w, st, err)
	case errors.Is(st.body.readError(), errTimeout):
		problemRequestTimeout.write(w, st, err)
	case errors.Is(cause, guard.ErrStale):
		st.err = guard.WithCause(st.request.Context(), cause)
		httpguard.Error(w, st.request, st.err)
	default:
		problemIncomplete.write(w, st, err)
	}
}
