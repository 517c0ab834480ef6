package proxy

import (
	"bytes"
	"context"
	"errors"
	"expvar"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/felixge/httpsnoop"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/internal/httpwrite"
	"github.com/fencepost/fencepost/token"
)

// proxy is a handler:
//
//	checkRequest ▶ checkPath ▶ match ▶ Middleware (tokens, signatures, in flight) ▶ slot ▶ body ▶ store ▶ upstream
//	      └──────────── safe requests without tokens ───────────────────────────────────────────────────────▲
type proxy struct {
	*Cmd
	log      *slog.Logger
	routes   *http.ServeMux
	keyring  *signature.Keyring // nil: signatures are not checked
	store    markStore
	guarded  http.Handler
	upstream http.Handler
	slots    chan struct{} // one for each guarded request in flight

	stopping                      atomic.Bool
	running, reports, storeErrors atomic.Int64
	requests                      expvar.Map // by answer
}

// requestState is the state of one request.
type requestState struct {
	begun     time.Time
	request   *http.Request
	unsafe    bool
	resources []string
	token     token.Token // of the first resource
	status    int
	answer    string // the value of the metric's label, if it is not the status
	err       error  // why the request was refused or failed; nil if it was not
}

type stateKey struct{}

func stateOf(ctx context.Context) *requestState { return ctx.Value(stateKey{}).(*requestState) }

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.running.Add(1)
	defer p.running.Add(-1)
	st := &requestState{begun: time.Now()}
	st.request = r.WithContext(context.WithValue(r.Context(), stateKey{}, st))
	complete := false // a panic cuts the answer off
	defer func() { p.end(st, complete) }()
	p.handle(httpsnoop.Wrap(w, httpsnoop.Hooks{WriteHeader: func(next httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
		return func(status int) {
			if st.status == 0 && status >= 200 { // of the proxy itself
				st.status = status
				if r.Body != http.NoBody && r.ProtoMajor == 1 {
					w.Header().Set("Connection", "close") // otherwise net/http would read the rest of a body first
				}
			}
			next(status)
		}
	}}), st.request, st)
	complete = true
}

func (p *proxy) handle(w http.ResponseWriter, r *http.Request, st *requestState) {
	// A server may ignore the field (RFC 9110 §7.8). After a switch of protocols a client could
	// send anything past the guard.
	r.Header.Del("Upgrade")
	st.unsafe = !httpwrite.IsSafe(r.Method)
	guarded := st.unsafe || len(r.Header[httpguard.Header]) > 0
	err := checkRequest(r)
	if err == nil && guarded {
		err = checkPath(r.URL)
	}
	switch {
	case err != nil && p.DangerouslyReportOnly:
		guarded = false
		p.reported(r.Context(), err)
	case err != nil:
		detail := fmt.Sprintf("Servers could read this request in two ways: %s.%s", err, nothingApplied)
		st.respond(w, http.StatusBadRequest, httpguard.ProblemMalformed, detail, err)
		return
	case guarded:
		var matched bool
		st.resources, matched = p.match(r)
		guarded = matched || st.unsafe && !p.DangerouslyPassUnmatched
	}
	if !guarded {
		p.forward(r.Context(), w, r, st)
		return
	}
	p.guarded.ServeHTTP(w, r)
}

// admitted is called by the Middleware while the request is in flight.
func (p *proxy) admitted(w http.ResponseWriter, r *http.Request) {
	st := stateOf(r.Context())
	st.request = r
	record(r.Context(), nil)
	if p.DangerouslyReportOnly {
		p.forward(r.Context(), w, r, st)
		return
	}
	wait, finish := untilSent(r.Context(), p.Wait)
	select {
	case p.slots <- struct{}{}:
	case <-wait.Done():
		p.unavailable(wait, w, st, errors.New("too many requests in flight"))
		return
	}
	release := sync.OnceFunc(func() { <-p.slots })
	defer release()
	if _ = finish(); !p.readBody(w, r, st) {
		return
	}
	wait, finish = untilSent(r.Context(), p.Wait)
	err := p.admit(wait, st, func(held context.Context) error {
		if err := finish(); err != nil {
			return err
		}
		if !st.unsafe {
			release() // it holds nothing
		}
		p.forward(held, w, r, st)
		return nil
	})
	if err != nil {
		p.unavailable(wait, w, st, err)
	}
}

var errWaitTimeout = errors.New("--wait has passed")

// untilSent returns a context that ends when a time has passed, and when the client leaves or
// a newer token comes, until finish is called. Finish returns nil, or why the context has
// ended before.
func untilSent(caller context.Context, d time.Duration) (wait context.Context, finish func() error) {
	wait, cancel := context.WithCancelCause(context.WithoutCancel(caller))
	present := context.AfterFunc(caller, func() { cancel(context.Cause(caller)) })
	timer := time.AfterFunc(d, func() { cancel(errWaitTimeout) })
	return wait, func() error {
		inTime := timer.Stop()
		if present() && inTime {
			return nil
		}
		<-wait.Done() // it ends in a moment
		return context.Cause(wait)
	}
}

// readBody reads the client's body to its end before anything is held or sent: the service
// never gets a part of a request, and a client that stops in its body holds no resource.
func (p *proxy) readBody(w http.ResponseWriter, r *http.Request, st *requestState) bool {
	if r.Body == http.NoBody {
		return true
	}
	// If a newer token has set an earlier deadline, to end the reading, the Middleware's body
	// returns its refusal before it reads.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(p.Timeout))
	content, err := io.ReadAll(http.MaxBytesReader(w, r.Body, p.MaxBody))
	switch long := new(http.MaxBytesError); {
	case err == nil:
		_ = control.SetReadDeadline(time.Time{})
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(content)), int64(len(content))
		r.TransferEncoding, r.Trailer = nil, nil
		r.Header.Del("Expect")
		return true
	case guard.IsRefusal(err):
		st.err = err
		httpguard.Error(w, r, err)
	case errors.As(err, &long):
		st.respond(w, http.StatusRequestEntityTooLarge, blank, "The body is longer than this proxy accepts."+nothingApplied, err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		st.respond(w, http.StatusRequestTimeout, blank, "The body was not complete in time."+nothingApplied, err)
	default:
		st.respond(w, http.StatusBadRequest, blank, "The body is incomplete."+nothingApplied, err)
	}
	return false
}

// unavailable answers a request that was not admitted while wait lasted.
func (p *proxy) unavailable(wait context.Context, w http.ResponseWriter, st *requestState, err error) {
	if err = guard.WithCause(wait, err); guard.IsRefusal(err) {
		st.err = err
		httpguard.Error(w, st.request, err)
		return
	}
	switch cause := context.Cause(wait); {
	case errors.Is(cause, context.Canceled):
		st.answer = "left"
	case !errors.Is(cause, errWaitTimeout):
		p.storeErrors.Add(1)
	}
	st.respond(w, http.StatusServiceUnavailable, httpguard.ProblemUnavailable, "The token was not admitted: older requests on the resource or "+
		"too many requests are in flight, or the store of marks failed."+nothingApplied+" The same request may be sent again.", connect.WithCause(wait, err))
}

// record is called by the Middleware with a refusal. The context has the tokens.
func record(ctx context.Context, err error) {
	st := stateOf(ctx)
	st.err = err
	if len(st.resources) > 0 {
		st.token, _ = token.FromContext(ctx, st.resources[0])
	}
}

// reported logs, in report-only mode, a request that would have been refused.
func (p *proxy) reported(ctx context.Context, err error) {
	p.reports.Add(1)
	record(ctx, err)
	p.line(slog.LevelWarn, "reported", stateOf(ctx))
}

// end counts a request, and writes its line if it was refused or failed, or with
// --access-log.
func (p *proxy) end(st *requestState, complete bool) {
	level, text := slog.LevelInfo, "passed"
	switch {
	case !complete:
		st.answer, level, text = "cut", slog.LevelWarn, "cut off"
	case st.answer == "service":
	case st.answer == "left":
		text = "the client has left"
	case st.status >= http.StatusInternalServerError:
		level, text = slog.LevelError, "failed"
	default:
		level, text = slog.LevelWarn, "refused"
	}
	if st.answer == "" {
		st.answer = strconv.Itoa(st.status)
	}
	p.requests.Add(st.answer, 1)
	if level > slog.LevelInfo || p.AccessLog {
		p.line(level, text, st)
	}
}

// line writes the line of a request. It never has a mark, a query or a body.
func (p *proxy) line(level slog.Level, text string, st *requestState) {
	attributes := []any{"method", st.request.Method, "path", st.request.URL.EscapedPath(), "client", st.request.RemoteAddr, "resources", st.resources,
		"number", st.token.Number, "holder", st.token.Holder, "status", st.status, "duration", time.Since(st.begun)}
	if st.err != nil {
		attributes = append(attributes, "error", st.err)
	}
	p.log.Log(context.Background(), level, text, attributes...)
}
