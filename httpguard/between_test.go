package httpguard_test

import (
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
)

// Tests of browsers, caches and proxies between client and service.

const origin = "https://shop.example"

// cors acts like a CORS middleware: it responds to preflights, and allows the origin to
// read the other responses.
func cors(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", origin)
		w.Header().Set("Access-Control-Expose-Headers", "Retry-After")
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			w.Header().Set("Access-Control-Allow-Methods", "GET, PUT")
			w.Header().Set("Access-Control-Allow-Headers", "Fencing-Token, Content-Type")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s site) fromBrowser(method string, header map[string]string) reply {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+"/accounts/42", nil)
	require.NoError(s.t, err)
	req.Header.Set("Origin", origin)
	for name, value := range header {
		req.Header.Set(name, value)
	}
	return s.send(s.Client(), req)
}

func TestScriptsReadRefusals(t *testing.T) {
	t.Parallel()
	preflight := map[string]string{"Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "fencing-token"}
	stale := map[string]string{"Fencing-Token": line("account/42", 32, "b")}
	for name, test := range map[string]struct {
		around func(*bank, httpguard.Middleware) http.Handler
		reads  string // which clients can read the refusal
	}{
		"not with CORS inside of the guard": {func(b *bank, m httpguard.Middleware) http.Handler {
			return m.Wrap(cors(b))
		}, ""},
		"with CORS outside of the guard": {func(b *bank, m httpguard.Middleware) http.Handler {
			return cors(m.Wrap(b))
		}, origin},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &bank{}
			m := httpguard.Middleware{Resources: accounts, Store: at(t), InFlight: new(httpguard.InFlight)}
			mux := http.NewServeMux()
			mux.Handle("/accounts/{id}", test.around(b, m))
			s := serve(t, mux, false)
			asked := s.fromBrowser("OPTIONS", preflight)
			require.Equal(t, http.StatusNoContent, asked.status, "a preflight has no token, and needs none")
			require.Contains(t, asked.header.Get("Access-Control-Allow-Headers"), "Fencing-Token")
			refused := s.fromBrowser("PUT", stale)
			require.Equal(t, http.StatusPreconditionFailed, refused.status)
			require.Equal(t, test.reads, refused.header.Get("Access-Control-Allow-Origin"))
			require.Empty(t, b.written())
		})
	}
}

// reader is a service whose accounts are read, with header fields of its own.
func reader(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "max-age=60")
	w.Header().Set("Etag", `"7"`)
	_, _ = io.WriteString(w, "250")
}

func TestReadsMayBeCachedAndRefusalsNot(t *testing.T) {
	t.Parallel()
	marks := at(t)
	mux := http.NewServeMux()
	m := httpguard.Middleware{Resources: accounts, Store: marks, InFlight: new(httpguard.InFlight)}
	mux.Handle("/accounts/{id}", m.Wrap(http.HandlerFunc(reader)))
	everyProtocol(t, func() http.Handler { return mux }, func(t *testing.T, s site) {
		plain := s.do("GET", "/accounts/42")
		claimed := s.do("GET", "/accounts/42", line("account/42", 33, "a"))
		for _, got := range []reply{plain, claimed} {
			got.header.Del("Date")
			require.Equal(t, http.StatusOK, got.status)
			require.Equal(t, "max-age=60", got.header.Get("Cache-Control"), "the handler's own")
			require.Empty(t, got.header.Get("Vary"))
		}
		require.Equal(t, plain, claimed, "what is read does not depend on the token")
		for _, lines := range [][]string{{line("account/42", 1, "b")}, {"33"}} {
			refused := s.do("GET", "/accounts/42", lines...)
			refused.problem(t) // no-store
			require.Empty(t, refused.header.Get("Etag"))
			head := s.do("HEAD", "/accounts/42", lines...)
			require.Equal(t, refused.status, head.status)
			require.Equal(t, "no-store", head.header.Get("Cache-Control"))
			require.Empty(t, head.body)
		}
	})
}

func TestAProxyDropsTheFieldWhereConnectionNamesIt(t *testing.T) {
	t.Parallel()
	b, marks := &bank{}, &guard.Memory{}
	service := serve(t, b.mux(httpguard.Middleware{Resources: accounts, Store: marks, InFlight: new(httpguard.InFlight)}), false)
	upstream, err := url.Parse(service.URL)
	require.NoError(t, err)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	s := serve(t, &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream) }}, false)
	kept := map[string]string{"Fencing-Token": line("account/42", 33, "a")}
	dropped := map[string]string{"Fencing-Token": line("account/42", 34, "a"), "Connection": "Fencing-Token"}

	require.Equal(t, http.StatusNoContent, s.fromBrowser("PUT", kept).status)
	require.Equal(t, http.StatusPreconditionRequired, s.fromBrowser("PUT", dropped).status)
	require.Equal(t, http.StatusNoContent, s.fromBrowser("GET", dropped).status)
	require.EqualValues(t, 33, marks.Mark("account/42").Number, "a read whose token was dropped has claimed nothing")
	require.Equal(t, []string{"PUT account/42#33", "GET"}, b.written())
}
