package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
)

// proxy is a handler:
//
//	screen ▶ path ▶ route ▶ Middleware (tokens, seals, window) ▶ place ▶ hold ▶ upstream
//	   └──────── safe requests without tokens ──────────────────────────────────▲
type proxy struct {
	*proxyCmd
	log      *proxyLog
	routes   *routes
	files    *proxyFiles
	store    marksStore
	places   chan struct{} // one for each guarded request in flight
	guarded  http.Handler
	upstream http.Handler
}

// upgraded is the method under which the Middleware sees a request that asks
// for a WebSocket: a GET, but what comes behind it may write.
const upgraded = "UPGRADE"

func (p *proxy) newGuarded() http.Handler {
	m := httpguard.Middleware{
		Resources:          resourcesOf,
		Seals:              p.files.seals,
		Wait:               p.Wait,
		DangerouslyObserve: p.DangerouslyObserve,
		Observer:           guard.Observer{Refused: noteRefusal, Observed: p.log.observed},
	}
	if p.store.hold == nil {
		m.Store = p.store.marks
	}
	return m.Wrap(http.HandlerFunc(p.admitted))
}

func resourcesOf(r *http.Request) ([]string, error) {
	e := exchangeOf(r.Context())
	if e.route == nil {
		return nil, fmt.Errorf("no --resource matches %s %s: name its resource, or take it off the proxy", e.method, r.URL.EscapedPath())
	}
	return e.resources, nil
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := &exchange{begun: time.Now(), method: r.Method, request: r}
	a := &answer{ResponseWriter: w}
	defer p.log.told(e, a)
	p.handle(a, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, e)), e)
	a.whole = true
}

func (p *proxy) handle(w http.ResponseWriter, r *http.Request, e *exchange) {
	if err := p.screen(r); err != nil && p.refuses(w, e, errScreened, err) {
		return
	}
	if r.ContentLength > int64(p.MaxBody) {
		errTooLarge.answer(w, e, fmt.Errorf("a body of %d bytes", r.ContentLength))
		return
	}
	if r.Body != nil && r.Body != http.NoBody {
		e.body = &body{ReadCloser: http.MaxBytesReader(w, r.Body, int64(p.MaxBody)), left: r.ContentLength}
		r.Body = e.body
	}
	e.upgrade = strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
	if !e.upgrade {
		// A server may ignore it (RFC 9110 §7.8). Behind a switch to HTTP/2 without
		// TLS, say, a client could ask for anything, past every guard.
		r.Header.Del("Upgrade")
	}
	e.unsafe = e.upgrade || !httpguard.Safe(r.Method)
	if !e.unsafe && len(r.Header[httpguard.Header]) == 0 {
		p.upstream.ServeHTTP(w, r)
		return
	}
	p.judge(w, r, e)
}

// judge finds the route, and has the Middleware judge the tokens.
func (p *proxy) judge(w http.ResponseWriter, r *http.Request, e *exchange) {
	if err := unambiguous(r.URL); err != nil {
		if !p.refuses(w, e, errAmbiguous, err) {
			p.upstream.ServeHTTP(w, r)
		}
		return
	}
	var err error
	if e.route = p.routes.match(r); e.route != nil {
		e.resources, err = e.route.resources(r)
	}
	switch {
	case err != nil: // the route has matched, so that only a {rest...} can be empty
		e.route = nil
	case e.route == nil && (!e.unsafe || p.DangerouslyPassUnmatched):
		p.upstream.ServeHTTP(w, r)
		return
	}
	if e.upgrade {
		r = r.WithContext(r.Context())
		r.Method = upgraded
	}
	p.guarded.ServeHTTP(w, r)
}
