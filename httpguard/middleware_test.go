package httpguard_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/token"
)

// at returns a store whose mark of account/42 is 33, of holder "a".
func at(t *testing.T) *guard.Memory {
	t.Helper()
	var marks guard.Memory
	require.NoError(t, marks.Admit(t.Context(), tok("account/42", 33, "a")))
	return &marks
}

func TestNestedMiddlewaresAgree(t *testing.T) {
	t.Parallel()
	b := &bank{}
	outer := httpguard.Middleware{Resources: accounts}
	mux := http.NewServeMux()
	mux.Handle("/accounts/{id}", outer.Wrap(httpguard.Middleware{Resources: accounts, Store: at(t)}.Wrap(b)))
	s := serve(t, mux, false)
	require.Equal(t, http.StatusNoContent, s.do("PUT", "/accounts/42", line("account/42", 34, "b")).status)
	require.Equal(t, http.StatusPreconditionFailed, s.do("PUT", "/accounts/42", line("account/42", 33, "a")).status)
	require.Equal(t, []string{"PUT account/42#34"}, b.written())
}

func TestHandlersThatDoNotUseTheirToken(t *testing.T) {
	t.Parallel()
	spend := func(r *http.Request, resource string) { _, _ = token.FromContext(r.Context(), resource) }
	for name, c := range map[string]struct {
		method  string
		handler func(w http.ResponseWriter, r *http.Request)
		unused  []string
	}{
		"it asks for its token":      {"PUT", func(_ http.ResponseWriter, r *http.Request) { spend(r, "account/42") }, nil},
		"it asks for all":            {"PUT", func(_ http.ResponseWriter, r *http.Request) { token.All(r.Context()) }, nil},
		"it asks for nothing":        {"PUT", func(http.ResponseWriter, *http.Request) {}, []string{"account/42"}},
		"it asks for another's":      {"PUT", func(_ http.ResponseWriter, r *http.Request) { spend(r, "account/7") }, []string{"account/42"}},
		"it responds 201":            {"POST", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }, []string{"account/42"}},
		"it fails":                   {"PUT", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusConflict) }, nil},
		"it redirects":               {"PUT", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusSeeOther) }, nil},
		"it panics":                  {"PUT", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil},
		"it reads":                   {"GET", func(http.ResponseWriter, *http.Request) {}, nil},
		"it acquires something else": {"PUT", func(_ http.ResponseWriter, r *http.Request) { token.NewContext(r.Context(), tok("b", 1, "h")) }, []string{"account/42"}},
		"it flushes, and asks then": {"PUT", func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			spend(r, "account/42")
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var unused []string
			m := httpguard.Middleware{Resources: accounts, Store: &guard.Memory{}, OnUnusedToken: func(r *http.Request, tok token.Token) {
				mu.Lock()
				defer mu.Unlock()
				require.Equal(t, "/accounts/42", r.URL.Path)
				unused = append(unused, tok.Resource)
			}}
			mux := http.NewServeMux()
			mux.Handle("/accounts/{id}", m.Wrap(http.HandlerFunc(c.handler)))
			s := serve(t, mux, false)
			req := s.request(t.Context(), c.method, "/accounts/42", http.NoBody, line("account/42", 34, "b"))
			if resp, err := s.Client().Transport.RoundTrip(req); err == nil {
				_ = resp.Body.Close()
			}
			s.Close() // the handler has returned
			mu.Lock()
			defer mu.Unlock()
			require.Equal(t, c.unused, unused)
		})
	}
}

// Each fault of a request or of the service, where the middleware refuses, where it only
// reports, and in the unguarded twin of a simulation.
func TestWhatEachModeMakesOfAFault(t *testing.T) {
	t.Parallel()
	newer := []string{line("account/42", 34, "b")}
	failing := func(err error) func(*httpguard.Middleware, string) {
		return func(m *httpguard.Middleware, log string) {
			m.Store = storeFunc(func(context.Context, token.Token) error { return fmt.Errorf("%s: %w", log, err) })
		}
	}
	for name, c := range map[string]struct {
		lines  []string
		change func(m *httpguard.Middleware, log string)
		status int
		hook   error // what the hook gets; nil: none, and the log has the error
		wrote  string
	}{
		"nothing":                        {newer, nil, 204, nil, "PUT account/42#34"},
		"a stale token":                  {[]string{line("account/42", 17, "b")}, nil, 412, guard.ErrStale, "PUT account/42#17"},
		"a collision":                    {[]string{line("account/42", 33, "b")}, nil, 412, guard.ErrCollision, "PUT account/42#33"},
		"no token":                       {nil, nil, 428, token.ErrMissing, "PUT"},
		"another's token":                {[]string{line("account/7", 1, "a")}, nil, 428, token.ErrMissing, "PUT account/7#1"},
		"a malformed field":              {append(newer, "7"), nil, 400, token.ErrInvalid, "PUT"},
		"a store that fails":             {newer, failing(io.ErrUnexpectedEOF), 503, nil, "PUT account/42#34"},
		"an admission that is not known": {newer, failing(guard.ErrUnknown), 503, nil, "PUT account/42#34"},
		"a mistake in the store":         {newer, failing(guard.ErrClaimFirst), 503, nil, "PUT account/42#34"},
		"a conflict in the store":        {newer, failing(guard.ErrRetryable), 503, nil, "PUT account/42#34"},
		"resources that are not known": {newer, func(m *httpguard.Middleware, log string) {
			m.Resources = httpguard.Pattern("account/{" + log + "}")
		}, 500, nil, "PUT account/42#34"},
	} {
		for mode, status := range map[string]int{"refuses": c.status, "reports": 204, "is the twin": 204} {
			t.Run(name+", "+mode, func(t *testing.T) {
				t.Parallel()
				var b bank
				calls, log := map[string]error{}, strings.ReplaceAll(name+" "+mode, " ", "-")
				m := httpguard.Middleware{Resources: accounts, Store: at(t), DangerouslyReportOnly: mode == "reports"}
				if mode != "is the twin" {
					m.Hooks.Refused = func(_ context.Context, err error) { calls["refuses"] = err }
					m.Hooks.Reported = func(_ context.Context, err error) { calls["reports"] = err }
				}
				if c.change != nil {
					c.change(&m, log)
				}
				s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if mode == "is the twin" {
						r = r.WithContext(failpoint.Unguarded(r.Context()))
					}
					b.mux(m).ServeHTTP(w, r)
				}), false)
				got := s.do("PUT", "/accounts/42", c.lines...)
				require.Equal(t, status, got.status)
				require.NotContains(t, got.body, log, "the error is not the client's business")
				if status == http.StatusServiceUnavailable {
					require.Equal(t, "1", got.header.Get("Retry-After"))
					require.Equal(t, httpguard.ProblemUnavailable, got.problem(t)["type"])
				}
				if status == http.StatusNoContent {
					require.Equal(t, []string{c.wrote}, b.written())
				} else {
					require.Empty(t, b.written())
				}
				if mode != "is the twin" && c.hook != nil {
					require.Len(t, calls, 1)
					require.ErrorIs(t, calls[mode], c.hook)
				} else {
					require.Empty(t, calls)
				}
				require.Equal(t, c.change != nil && mode != "is the twin", logged.has(log))
				require.False(t, logged.has("stale token account/42#17"))
				require.Equal(t, http.StatusNoContent, s.do("GET", "/accounts/42").status, "a read without a token calls neither")
			})
		}
	}
}
