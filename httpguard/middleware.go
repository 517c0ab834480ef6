package httpguard

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/felixge/httpsnoop"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/internal/httpwrite"
	"github.com/fencepost/fencepost/internal/tokenuse"
	"github.com/fencepost/fencepost/token"
)

// Middleware admits or refuses requests by their tokens before a handler runs, and keeps
// handlers under different tokens of one resource from running at the same time. Mount it
// around the handler of a route, after the router has matched the path. It is a value;
// its handlers are safe for concurrent use if its fields are.
//
// Middleware uses the request's method, so any method override must run before it. GET,
// HEAD, OPTIONS and TRACE are safe (RFC 9110 §9.2.1); every other method is unsafe. A
// safe request needs no token. A safe request with a token of its resource is admitted or
// refused like any other, so it claims the resource before the caller acts on what it
// reads. The zero Middleware admits only safe requests without tokens.
type Middleware struct {
	// Resources returns the names of the resources that a request is about: see
	// [Pattern]. An unsafe request needs a token of each. Resources is not called for a
	// safe request without tokens. If its error is [token.ErrInvalid] the response is
	// 400. Any other error, an empty name, and no names for an unsafe request give 500.
	// Nil refuses every request that needs it with 500.
	Resources func(*http.Request) ([]string, error)
	// Store admits the tokens of Resources, in the bytewise order of the names, under the
	// request's context. If it is nil, tokens are compared only with those of the
	// requests in flight, and the handler's guarded writes decide.
	Store guard.Store
	// Keyring verifies the signatures of the tokens of Resources, and refuses a token
	// without a valid one. If it is nil, signatures are not verified: any caller that can
	// reach the service can send any number.
	Keyring *signature.Keyring
	// InFlight keeps requests under different tokens of one resource apart, for all
	// handlers that share it. If it is nil, middlewares whose Stores keep the same marks
	// share one: those whose Stores have equal identities (see [guard.Identified]) or,
	// without an identity, are the same value, such as the same pointer. Stores of one
	// type that have no identity and cannot be compared share one. Without a Store, each
	// handler returned by Wrap has its own. If two Stores reach the same marks by
	// different paths (a *sql.DB and a pgx pool, or a server and its pooler), give their
	// middlewares one InFlight.
	InFlight *InFlight
	// WaitTimeout is how long a request waits for older requests to leave their handlers
	// before the response is 503. An older handler has half of WaitTimeout to write its
	// response; over HTTP/2 its stream is reset after that. Zero means five seconds.
	WaitTimeout time.Duration
	// OnUnusedToken is for development. It is called after a request with an unsafe
	// method got a 2xx response if its handler did not look tok up in the context, by
	// [token.FromContext] or [token.All]: either the handler wrote without the token, or
	// it wrote nothing. It costs a wrapped ResponseWriter. Nil disables it.
	OnUnusedToken func(r *http.Request, tok token.Token)
	// DangerouslySkipInFlight disables InFlight: an older request whose handler still
	// runs may write at any time, and is not cancelled. It is safe if every write of the
	// handlers is guarded. The zero value uses InFlight.
	DangerouslySkipInFlight bool
	// DangerouslyReportOnly admits every request, and disables InFlight. Refusals are
	// reported to Hooks.Reported; errors of the Store and of Resources are logged to
	// [log/slog.Default]. A malformed field is ignored: the handler's context has no
	// tokens. The zero value refuses.
	DangerouslyReportOnly bool
	// Hooks are called for tokens that are stale, missing, malformed or not validly
	// signed. The zero value calls nothing.
	Hooks guard.Hooks
}

const defaultWaitTimeout = 5 * time.Second

// Wrap returns a handler that calls next for the requests that are admitted. Their
// context carries all tokens of the field, including those of other resources; next reads
// them with [token.FromContext]. When a newer token arrives the context is cancelled,
// with a [*guard.DismissedError] as its cause. Other requests get the responses in the
// package's table, and next is not called.
//
// A request is in InFlight until next returns or panics. InFlight does not cover work
// that goes on after that: in other goroutines (as with [http.TimeoutHandler]), in a
// statement that a server still executes, or on a hijacked connection. See "What it does
// not" in the package's documentation.
func (m Middleware) Wrap(next http.Handler) http.Handler {
	if m.WaitTimeout <= 0 {
		m.WaitTimeout = defaultWaitTimeout
	}
	h := &handler{Middleware: m, next: next}
	if h.InFlight == nil {
		h.InFlight, h.owner = &sharedInFlight, h
		if m.Store != nil {
			h.owner = identity(m.Store)
		}
	}
	return h
}

// identity returns a comparable value that is equal for stores with the same marks.
func identity(store guard.Store) any {
	var id any = store
	if store, ok := store.(guard.Identified); ok {
		id = store.Identity()
	}
	if id != nil && !reflect.ValueOf(id).Comparable() {
		return reflect.TypeOf(store)
	}
	return id
}

// handler is the handler that Wrap returns.
type handler struct {
	Middleware
	next  http.Handler
	owner any // separates its queues from those of other handlers that share InFlight
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if len(r.Header[Header]) == 0 && httpwrite.IsSafe(r.Method) {
		stepAdmitted(r.Context(), r)
		h.next.ServeHTTP(w, r)
		stepReturned(r.Context(), r)
		return
	}
	req := newRequest(w, r, h.owner)
	defer req.finish()
	err := req.read(r.Header[Header])
	if err == nil {
		err = h.admit(req, r)
	}
	if err != nil {
		err = h.report(req.ctx, err)
	}
	if err != nil {
		refuse(w, r, err)
		return
	}
	stepAdmitted(req.ctx, r)
	h.serve(req, r)
	stepReturned(req.ctx, r)
}

// admit returns nil, a refusal, a *resourceError, a *storeError or errWaitTimeout. Cheap
// checks come first, and all tokens are found and verified before the first is admitted.
func (m *Middleware) admit(req *request, r *http.Request) error {
	needed := !httpwrite.IsSafe(r.Method)
	if !needed && len(req.signed) == 0 {
		return nil // the field was sent, and is empty
	}
	resources, err := m.resources(r, needed)
	if err != nil {
		return err
	}
	if err := req.needSlots(resources, needed); err != nil {
		return err
	}
	if err := m.verify(req); err != nil {
		return err
	}
	if !m.DangerouslySkipInFlight && !m.DangerouslyReportOnly && !isTwin(req.ctx) {
		if err := m.InFlight.enterAll(req, m.WaitTimeout); err != nil {
			return err
		}
	}
	return m.admitByStore(req)
}

func (m *Middleware) verify(req *request) error {
	if m.Keyring == nil {
		return nil
	}
	for i := range req.slots {
		if err := m.Keyring.Verify(*req.slots[i].signed); err != nil {
			return err
		}
	}
	return nil
}

// admitByStore calls the store only while the request is in InFlight. In the other order
// an overtaken request is admitted:
//
//  1. the store admits 33, which is not in flight yet;
//  2. 34 is admitted, enters InFlight, which is empty, writes and leaves;
//  3. 33 enters InFlight, which is empty again, and writes.
//
// The last line checks whether a newer request has arrived since.
func (m *Middleware) admitByStore(req *request) error {
	if m.Store == nil {
		return req.refusal()
	}
	for i := range req.slots {
		if err := m.Store.Admit(req.ctx, req.slots[i].signed.Token); err != nil {
			if stale := req.refusal(); stale != nil {
				return stale // the store's error only reports that the context has ended
			}
			if guard.IsRefusal(err) {
				return err
			}
			return &storeError{err: err}
		}
	}
	return req.refusal()
}

var (
	errNoFunc  = errors.New("httpguard: Middleware.Resources is nil")
	errNoNames = errors.New("httpguard: Middleware.Resources names no resource for an unsafe method")
	errNoName  = errors.New("httpguard: Middleware.Resources names an empty resource")
)

// resources returns the resources that r is about. No names for an unsafe method are an
// error: a forgotten case is more likely than a request that changes nothing.
func (m *Middleware) resources(r *http.Request, needed bool) ([]string, error) {
	if m.Resources == nil {
		return nil, &resourceError{err: errNoFunc}
	}
	names, err := m.Resources(r)
	switch {
	case errors.Is(err, token.ErrInvalid):
		return nil, err
	case err != nil:
		return nil, &resourceError{err: err}
	case needed && len(names) == 0:
		return nil, &resourceError{err: errNoNames}
	}
	return names, nil
}

// needSlots makes one slot for each distinct resource that the request has a token of, in
// bytewise order. An unsafe request must have a token of each. Only names without a token
// are validated: parsing the token has validated the others.
func (req *request) needSlots(resources []string, needed bool) error {
	req.slots = req.oneSlot[:0]
	for _, resource := range resources {
		signed := req.find(resource)
		switch {
		case signed != nil:
			req.slots = append(req.slots, slot{signed: signed, request: req})
			continue
		case resource == "":
			return &resourceError{err: errNoName}
		}
		if err := token.ValidateResource(resource); err != nil {
			return err
		}
		if needed {
			return req.missing(resource)
		}
	}
	if len(req.slots) > 1 {
		slices.SortFunc(req.slots, func(a, b slot) int { return strings.Compare(a.signed.Token.Resource, b.signed.Token.Resource) })
		req.slots = slices.CompactFunc(req.slots, func(a, b slot) bool { return a.signed == b.signed })
	}
	return nil
}

func (req *request) missing(resource string) error {
	err := &token.MissingError{Resource: resource}
	for _, signed := range req.signed {
		err.Have = append(err.Have, signed.Token.Resource)
	}
	return err
}

// report passes err to the hooks and returns the error to respond with. It is nil in
// report-only mode, even if the store failed: a service that does not rely on the store
// yet must not fail with it.
func (m *Middleware) report(ctx context.Context, err error) error {
	err = m.Hooks.Outcome(ctx, err, m.DangerouslyReportOnly)
	switch {
	case err == nil, isTwin(ctx):
		return nil
	case m.DangerouslyReportOnly:
		slog.WarnContext(ctx, "httpguard: report-only, passed unchecked", "error", err)
		return nil
	}
	return err
}

// serve calls the handler.
func (h *handler) serve(req *request, r *http.Request) {
	switch {
	case len(req.signed) == 0:
		h.next.ServeHTTP(req.w, r)
	case h.OnUnusedToken == nil || httpwrite.IsSafe(r.Method):
		h.next.ServeHTTP(req.w, req.forHandler(r))
	default:
		h.serveAndTrack(req, r)
	}
}

// serveAndTrack calls the handler. If the response is 2xx it reports the tokens that the
// handler has not looked up.
func (h *handler) serveAndTrack(req *request, r *http.Request) {
	ctx, notes := tokenuse.Track(req.ctx)
	r = req.forHandler(r).WithContext(ctx)
	seen := httpsnoop.CaptureMetricsFn(req.w, func(w http.ResponseWriter) { h.next.ServeHTTP(w, r) })
	if seen.Code < 200 || seen.Code > 299 {
		return
	}
	for i := range req.slots {
		if tok := req.slots[i].signed.Token; !notes.Has(tok.Resource) {
			h.OnUnusedToken(r, tok)
		}
	}
}
