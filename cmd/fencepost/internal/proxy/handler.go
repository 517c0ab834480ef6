package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/httpwrite"
)

// proxy is a handler:
//
//	checkRequest ▶ checkPath ▶ route ▶ Middleware (tokens, signatures, in flight) ▶ slot ▶ hold ▶ upstream
//	      └──────────── safe requests without tokens ──────────────────────────────────────────────────▲
type proxy struct {
	*Cmd
	log      *logger
	routes   *routes
	files    *reloadedFiles
	store    markStore
	slots    chan struct{} // one for each guarded request in flight
	running  inFlight
	guarded  http.Handler
	upstream http.Handler
}

// upgraded is the method with which the Middleware sees a request for a WebSocket, which
// is a GET: the messages that follow may write.
const upgraded = "UPGRADE"

func (p *proxy) newGuarded() http.Handler {
	m := httpguard.Middleware{
		Resources:             resourcesOf,
		Keyring:               p.files.keyring,
		WaitTimeout:           p.Wait,
		DangerouslyReportOnly: p.DangerouslyReportOnly,
		Hooks:                 guard.Hooks{Refused: recordRefusal, Reported: p.log.reported},
	}
	if p.store.hold == nil {
		m.Store = countedStore{p.store.marks, p.log.metrics}
	}
	return m.Wrap(http.HandlerFunc(p.admitted))
}

func resourcesOf(r *http.Request) ([]string, error) {
	st := stateOf(r.Context())
	if st.route == nil {
		return nil, fmt.Errorf("no --resource matches %s %s: name its resource, or take it off the proxy", st.method, r.URL.EscapedPath())
	}
	return st.resources, nil
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	st := &requestState{begun: time.Now(), method: r.Method, request: r}
	a := &recorder{ResponseWriter: w}
	defer p.log.requestEnd(st, a)
	defer p.log.metrics.requestEnd(st, a)
	p.handle(a, r.WithContext(context.WithValue(r.Context(), stateKey{}, st)), st)
	a.complete = true
}

func (p *proxy) handle(w http.ResponseWriter, r *http.Request, st *requestState) {
	if err := p.checkRequest(r); err != nil && p.refuses(w, st, problemRequest, err) {
		return
	}
	if r.ContentLength > int64(p.MaxBody) {
		problemTooLarge.write(w, st, fmt.Errorf("a body of %d bytes", r.ContentLength))
		return
	}
	if r.Body != nil && r.Body != http.NoBody {
		st.body = &body{ReadCloser: http.MaxBytesReader(w, r.Body, int64(p.MaxBody)), left: r.ContentLength}
		r.Body = st.body
	}
	st.upgrade = strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
	if !st.upgrade {
		// A server may ignore the field (RFC 9110 §7.8). After a switch to HTTP/2 without
		// TLS, for example, a client could send any request past the guard.
		r.Header.Del("Upgrade")
	}
	st.unsafe = st.upgrade || !httpwrite.IsSafe(r.Method)
	if !st.unsafe && len(r.Header[httpguard.Header]) == 0 {
		p.upstream.ServeHTTP(w, r)
		return
	}
	p.serveGuarded(w, r, st)
}

// serveGuarded finds the route, and calls the Middleware, which compares the tokens.
func (p *proxy) serveGuarded(w http.ResponseWriter, r *http.Request, st *requestState) {
	if err := checkPath(r.URL); err != nil {
		if !p.refuses(w, st, problemPath, err) {
			p.upstream.ServeHTTP(w, r)
		}
		return
	}
	var err error
	if st.route = p.routes.match(r); st.route != nil {
		st.resources, err = st.route.resources(r)
	}
	switch {
	case err != nil: // the route has matched, so that only a {rest...} can be empty
		st.route = nil
	case st.route == nil && (!st.unsafe || p.DangerouslyPassUnmatched):
		p.upstream.ServeHTTP(w, r)
		return
	}
	if st.upgrade {
		r = r.WithContext(r.Context())
		r.Method = upgraded
	}
	p.guarded.ServeHTTP(w, r)
}

// admitted is called by the Middleware while the request is in flight.
func (p *proxy) admitted(w http.ResponseWriter, r *http.Request) {
	st := stateOf(r.Context())
	r = r.WithContext(r.Context())
	r.Method = st.method
	st.request = r
	if st.body != nil { // around the Middleware's, whose reads fail when a newer token waits
		st.body = &body{ReadCloser: r.Body, left: -1}
		r.Body = st.body
	}
	if p.DangerouslyReportOnly {
		p.upstream.ServeHTTP(w, r)
		return
	}
	wait := newBoundedWait(r.Context(), p.Wait)
	defer wait.cancel(nil)
	release, err := p.acquireSlot(wait)
	if err == nil {
		defer release()
		err = p.admitAndSend(w, r, st, wait, release)
	}
	if err != nil {
		p.notSent(w, r, st, err)
	}
}

// admitAndSend sends the request to the upstream, and has the store hold its resources
// meanwhile, if the store can. A safe request holds nothing: it releases its slot once
// its token is admitted. An error means that the request was not sent.
func (p *proxy) admitAndSend(w http.ResponseWriter, r *http.Request, st *requestState, wait *boundedWait, release func()) error {
	send := func(held context.Context) { p.send(held, w, r, st) }
	if p.store.hold != nil && st.unsafe {
		return p.store.hold(wait, st.resources, send)
	}
	if p.store.hold != nil {
		if err := p.store.claim(wait, st.resources); err != nil {
			return err
		}
	}
	if err := wait.finish(); err != nil {
		return err
	}
	if !st.unsafe {
		release()
	}
	send(context.Background())
	return nil
}

// send returns when the upstream has answered, or has been cut off. A request that may
// write ends neither when the client leaves nor when a newer token comes: an upstream
// whose connection is closed may go on working for an unknown time. Both end the
// reading of the body: an upstream does not begin to work before it has the whole
// request. A WebSocket has no answer to wait for, and ends with its client.
func (p *proxy) send(held context.Context, w http.ResponseWriter, r *http.Request, st *requestState) {
	if !st.unsafe {
		p.upstream.ServeHTTP(w, r)
		return
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer cancel(nil)
	defer context.AfterFunc(held, func() { cancel(context.Cause(held)) })()
	if st.upgrade {
		defer context.AfterFunc(r.Context(), func() { cancel(context.Cause(r.Context())) })()
	}
	st.bounded = !st.upgrade
	p.upstream.ServeHTTP(w, r.WithContext(ctx))
}

// acquireSlot takes a slot for a request in flight, until release is called, once or more
// often.
func (p *proxy) acquireSlot(wait context.Context) (release func(), err error) {
	release = sync.OnceFunc(func() { <-p.slots })
	select {
	case p.slots <- struct{}{}:
		return release, nil
	default:
	}
	select {
	case p.slots <- struct{}{}:
		return release, nil
	case <-wait.Done():
		if cause := context.Cause(wait); !errors.Is(cause, errWaitTimeout) {
			return nil, guard.WithCause(wait, cause)
		}
		return nil, errFull
	}
}

var (
	// errWaitTimeout ends a wait for older requests.
	errWaitTimeout = errors.New("older requests are still in flight")
	// errFull is returned when no slot was released in time.
	errFull = errors.New("too many requests in flight")
)

// boundedWait is a context that ends when a time has passed, or when the client leaves,
// until finish is called. After that neither ends it.
type boundedWait struct {
	context.Context
	cancel context.CancelCauseFunc
	stop   func() bool
}

func newBoundedWait(caller context.Context, d time.Duration) *boundedWait {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(caller))
	present := context.AfterFunc(caller, func() { cancel(context.Cause(caller)) })
	timer := time.AfterFunc(d, func() { cancel(errWaitTimeout) })
	return &boundedWait{Context: ctx, cancel: cancel, stop: func() bool {
		inTime := timer.Stop()
		return present() && inTime
	}}
}

// finish returns nil, or why the wait has ended before: nothing has been sent.
func (w *boundedWait) finish() error {
	if w.stop() {
		return nil
	}
	<-w.Done() // it ends in a moment
	return guard.WithCause(w, context.Cause(w))
}
