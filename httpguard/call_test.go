package httpguard_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

func TestHandlersThatDoNotSpendTheirToken(t *testing.T) {
	t.Parallel()
	spend := func(r *http.Request, resource string) { _, _ = token.FromContext(r.Context(), resource) }
	for name, c := range map[string]struct {
		method  string
		handler func(w http.ResponseWriter, r *http.Request)
		unspent []string
	}{
		"it asks for its token":      {"PUT", func(_ http.ResponseWriter, r *http.Request) { spend(r, "account/42") }, nil},
		"it asks for all":            {"PUT", func(_ http.ResponseWriter, r *http.Request) { token.All(r.Context()) }, nil},
		"it asks for nothing":        {"PUT", func(http.ResponseWriter, *http.Request) {}, []string{"account/42"}},
		"it asks for another's":      {"PUT", func(_ http.ResponseWriter, r *http.Request) { spend(r, "account/7") }, []string{"account/42"}},
		"it says that it created":    {"POST", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }, []string{"account/42"}},
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
			var unspent []string
			m := httpguard.Middleware{Resources: accounts, Store: &guard.Memory{}, Unspent: func(r *http.Request, tok token.Token) {
				mu.Lock()
				defer mu.Unlock()
				require.Equal(t, "/accounts/42", r.URL.Path)
				unspent = append(unspent, tok.Resource)
			}}
			mux := http.NewServeMux()
			mux.Handle("/accounts/{id}", m.Wrap(http.HandlerFunc(c.handler)))
			s := serve(t, mux, false)
			req, err := http.NewRequestWithContext(t.Context(), c.method, s.URL+"/accounts/42", http.NoBody)
			require.NoError(t, err)
			req.Header.Set(httpguard.Header, line("account/42", 34, "b"))
			if resp, err := s.Client().Transport.RoundTrip(req); err == nil {
				_ = resp.Body.Close()
			}
			s.Close() // the handler has returned
			mu.Lock()
			defer mu.Unlock()
			require.Equal(t, c.unspent, unspent)
		})
	}
}
