package httpguard

import (
	"net/http"
	"reflect"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/seal"
)

// Middleware judges the tokens of requests before a handler runs, and keeps
// the handlers of two tokens apart. Mount it around the handler of a route,
// where the path has been matched. It is a value; its handlers are safe for
// concurrent use if its parts are.
//
// It looks at the request's method as it finds it: whatever rewrites methods
// must have done so before. GET, HEAD, OPTIONS and TRACE are safe (RFC 9110
// §9.2.1), every other method is not. A safe request needs no token; one that
// carries a token of its resource is judged like any other, and so claims the
// resource before what it reads is acted on. The zero Middleware knows no
// resource and lets only safe requests without tokens pass.
type Middleware struct {
	// Resources names the resources that a request is about: see [Pattern].
	// Every one needs a token, if the method is unsafe. It is not asked about
	// safe requests that carry no token. An error that is [token.ErrInvalid]
	// blames the request (400); every other error, an empty name, and no names
	// for an unsafe request blame the service (500).
	Resources func(*http.Request) ([]string, error)
	// Store admits the tokens of Resources, in the bytewise order of the names,
	// under the request's context. Where it is nil nothing is compared but with
	// the requests in flight: the handler's own guarded writes decide.
	Store guard.Store
	// Seals verifies that the tokens of Resources were sealed by whoever issued
	// them: without a valid seal they are refused. Where it is nil nobody looks,
	// and whoever reaches the service can make up a number.
	Seals *seal.Ring
	// Window keeps the requests of two tokens on one resource apart, whichever
	// of the handlers that share it they are for. Nil is a window that is shared
	// by the middlewares with the same Store (the same pointer, say); without a
	// Store each handler that Wrap returns has its own.
	Window *Window
	// Wait is how long a request waits for older ones to leave their handlers;
	// then it is answered 503. Zero is five seconds. Half of it is what an older
	// handler has to write its answer; over HTTP/2 the stream of one that is still
	// there then is reset.
	Wait time.Duration
	// Unspent is for development: it is called when a request with an unsafe
	// method was answered 2xx and nobody has asked its context for tok, by
	// [token.FromContext] or [token.All]. Either the handler wrote without its
	// token, or it wrote nothing. Nil is off; it costs a wrapped ResponseWriter.
	Unspent func(r *http.Request, tok token.Token)
	// DangerouslyWithoutWindow leaves the window out: an older request that is
	// still in its handler writes when it likes. Handlers whose every write asks
	// a guard need no window, but lose the early end of the older ones.
	DangerouslyWithoutWindow bool
	// DangerouslyObserve lets everything pass: the middleware never answers a
	// request itself, and the window is left out. Refusals are told to
	// Observer.Observed; a store that fails, and resources that are not known,
	// to [log/slog.Default]. Of a malformed field no token reaches the handler,
	// as if there were none.
	DangerouslyObserve bool
	// Observer is told of refusals: tokens that are stale, missing, malformed
	// or not sealed.
	Observer guard.Observer
}

const defaultWait = 5 * time.Second

// Wrap returns a handler that calls next with the requests that are admitted.
// Their context carries all tokens of the field, those of other resources too,
// and next finds them by [token.FromContext]. It ends when a newer token comes,
// with a [*guard.DismissedError] as the cause. The other requests are answered as
// the package's table says, and next does not hear of them.
//
// The window is shut until next returns or panics. What next leaves to other
// goroutines (as [http.TimeoutHandler] does), to a server that it has sent a
// statement to, or does with a connection it has hijacked after it returned, is
// outside: see "What it does not".
func (m Middleware) Wrap(next http.Handler) http.Handler {
	if m.Wait <= 0 {
		m.Wait = defaultWait
	}
	h := &handler{Middleware: m, next: next}
	if h.Window == nil {
		h.Window, h.owner = &process, h
		if m.Store != nil && reflect.ValueOf(m.Store).Comparable() {
			h.owner = m.Store
		}
	}
	return h
}

// handler is what Wrap returns.
type handler struct {
	Middleware
	next  http.Handler
	owner any // what tells its window from those of others, where they share one
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if len(r.Header[Header]) == 0 && Safe(r.Method) {
		point.At(r.Context(), point.Admitted, r)
		h.next.ServeHTTP(w, r)
		point.At(r.Context(), point.Response, r)
		return
	}
	v := newVisit(w, r, h.owner)
	defer v.leave()
	err := v.read(r.Header[Header])
	if err == nil {
		err = h.judge(v, r)
	}
	if err != nil {
		err = h.report(v.Context, err)
	}
	if err != nil {
		refuse(w, r, err)
		return
	}
	point.At(v.Context, point.Admitted, r)
	h.call(v, r)
	point.At(v.Context, point.Response, r)
}

// Safe reports whether a request with this method needs no token: GET, HEAD,
// OPTIONS and TRACE (RFC 9110 §9.2.1). Bytes are compared, since methods are
// case-sensitive (§9.1).
func Safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}
