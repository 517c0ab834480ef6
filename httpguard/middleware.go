package httpguard

import (
	"context"
	"net/http"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/token"
)

// Middleware judges the tokens of requests before a handler runs. Mount it
// around the handler of a route, where the path has been matched. It is a
// value; its handlers are safe for concurrent use if its parts are.
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
	// Store admits the tokens of Resources, in the order given, under the
	// request's context. Where it is nil nothing is compared: tokens must be
	// there and well-formed, and the handler's own guarded writes decide.
	Store guard.Store
	// DangerouslyObserve lets everything pass: the middleware never answers a
	// request itself. Refusals are told to Observer.Observed; a store that
	// fails, and resources that are not known, to [log/slog.Default]. Of a
	// malformed field no token reaches the handler, as if there were none.
	DangerouslyObserve bool
	// Observer is told of refusals: stale, missing and malformed tokens.
	Observer guard.Observer
}

// Wrap returns a handler that calls next with the requests that are admitted.
// Their context carries all tokens of the field, those of other resources too,
// and next finds them by [token.FromContext]. The other requests are answered
// as the package's table says, and next does not hear of them.
//
// Admitted means admitted at that moment: next's write needs a guard of its
// own. See "What it does not".
func (m Middleware) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		toks, err := Parse(r.Header[Header])
		ctx := r.Context()
		for _, tok := range toks {
			ctx = token.NewContext(ctx, tok)
		}
		if err == nil {
			err = m.judge(ctx, r, toks)
		}
		if err != nil {
			err = m.report(ctx, err)
		}
		if err != nil {
			refuse(w, r, err)
			return
		}
		point.At(ctx, point.Admitted, r)
		if len(toks) == 0 {
			next.ServeHTTP(w, r)
		} else {
			next.ServeHTTP(w, r.WithContext(ctx))
		}
		point.At(ctx, point.Response, r)
	})
}

// judge returns nil, a refusal, a *mountError or a *storeError.
func (m Middleware) judge(ctx context.Context, r *http.Request, toks []token.Token) error {
	needed := !safe(r.Method)
	if !needed && len(toks) == 0 {
		return nil
	}
	resources, err := m.resources(r, needed)
	if err != nil {
		return err
	}
	// Nothing is admitted before everything is there.
	for _, resource := range resources {
		if err := present(toks, resource, needed); err != nil {
			return err
		}
	}
	if m.Store == nil {
		return nil
	}
	return m.admit(ctx, resources, toks)
}

func (m Middleware) admit(ctx context.Context, resources []string, toks []token.Token) error {
	for _, resource := range resources {
		tok, ok := find(toks, resource)
		if !ok {
			continue
		}
		if err := m.Store.Admit(ctx, tok); err != nil {
			if guard.Refusal(err) {
				return err
			}
			return &storeError{err: err}
		}
	}
	return nil
}

// safe compares bytes: methods are case-sensitive (RFC 9110 §9.1).
func safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}
