package main

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
)

var errTimeout = errors.New("the upstream did not answer in time")

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
			strip(r.Out.Header)
		},
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: p.MaxInFlight,
			// Shorter than the upstream's own: a write on a connection that it closes
			// at that moment has an unknown outcome.
			IdleConnTimeout:       2 * time.Second,
			TLSHandshakeTimeout:   10 * time.Second,
			ExpectContinueTimeout: time.Second,
			ResponseHeaderTimeout: p.Timeout,
			DisableCompression:    true,
		},
		ErrorLog:     p.log.standard(),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) { p.failed(w, r, err) },
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := exchangeOf(r.Context())
		// From here on it is not certain that nothing was sent.
		trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { e.sent.Store(true) }}
		forward.ServeHTTP(w, r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	})
}

// failed answers where the upstream did not.
func (p *proxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	e := exchangeOf(r.Context())
	if e.body.broken() != nil {
		e.incomplete(w, err)
		return
	}
	cause := context.Cause(r.Context())
	var timeout net.Error
	pr := errNoAnswer
	switch {
	case errors.Is(cause, errTimeout), errors.As(err, &timeout) && timeout.Timeout():
		pr = errSlow
	case !e.sent.Load():
		pr = errNoUpstream
	}
	if cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	if e.unsafe && e.sent.Load() {
		pr = pr.unknown()
	}
	pr.answer(w, e, err)
}

// incomplete answers a request of which the upstream did not get the end.
func (e *exchange) incomplete(w http.ResponseWriter, err error) {
	var long *http.MaxBytesError
	cause := context.Cause(e.request.Context())
	switch {
	case errors.As(e.body.broken(), &long):
		errTooLarge.answer(w, e, err)
	case errors.Is(cause, guard.ErrStale):
		e.err = guard.WithLoss(e.request.Context(), cause)
		httpguard.Error(w, e.request, e.err)
	default:
		errBroken.answer(w, e, err)
	}
}
