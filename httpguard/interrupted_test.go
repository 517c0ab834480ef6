package httpguard_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard"
)

// The upstream has the whole request when a newer token ends its context: what
// becomes of it nobody knows, and nobody may say that nothing was applied.
func TestARequestThatIsCutOffIsNotRefused(t *testing.T) {
	t.Parallel()
	for name, transport := range map[string]func(host string) http.RoundTripper{
		"a plain transport":     func(string) http.RoundTripper { return http.DefaultTransport },
		"a host not named":      func(string) http.RoundTripper { return httpguard.Transport{} },
		"a host that was named": func(host string) http.RoundTripper { return httpguard.Transport{Hosts: []string{host}} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arrived, resume, applied := make(chan struct{}), make(chan struct{}), make(chan struct{})
			upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, _ *http.Request) {
				close(arrived)
				<-resume
				close(applied)
			}))
			t.Cleanup(upstream.Close)
			u, err := url.Parse(upstream.URL)
			require.NoError(t, err)
			forward := httputil.NewSingleHostReverseProxy(u)
			forward.Transport, forward.ErrorHandler = transport(u.Host), httpguard.Error
			m := httpguard.Middleware{Resources: accounts, Window: &httpguard.Window{}, Wait: time.Minute}
			mux := http.NewServeMux()
			mux.Handle("/accounts/{id}", m.Wrap(forward))
			mux.Handle("/direct/{id}", m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
			s := serve(t, mux, false)
			req, err := http.NewRequestWithContext(t.Context(), "PUT", s.URL+"/accounts/42", strings.NewReader("x"))
			require.NoError(t, err)
			req.Header.Set(httpguard.Header, line("account/42", 34, "a"))
			older := make(chan reply, 1)
			go func() { older <- s.send(s.Client(), req) }()
			<-arrived
			require.Equal(t, http.StatusOK, s.do("PUT", "/direct/42", line("account/42", 35, "b")).status)
			got := <-older
			close(resume)
			<-applied
			require.Equal(t, httpguard.ProblemUnknown, got.problem(t)["type"])
		})
	}
}
