package httpguard_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// echo answers with the tokens it was sent, or redirects where one path leads.
func echo(to string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Join(r.Header[httpguard.Header], "|"))
	})
	mux.Handle("/away", http.RedirectHandler(to, http.StatusTemporaryRedirect))
	return mux
}

func TestRedirectsDoNotLeakTokens(t *testing.T) {
	t.Parallel()
	foreign := serve(t, echo(""), false)
	named := serve(t, echo(foreign.URL), false)
	host := named.Listener.Addr().String()

	// The naive client sets the field itself: http.Client copies it along.
	req := request(t, t.Context(), named.URL+"/away")
	req.Header.Set(httpguard.Header, both)
	require.Equal(t, both, named.send(named.Client(), req).body, "the tokens were told to a stranger")

	client := &http.Client{Transport: httpguard.Transport{Hosts: []string{host}}}
	defer client.CloseIdleConnections()
	require.Equal(t, both, named.send(client, request(t, holding(t.Context()), named.URL)).body)
	require.Empty(t, named.send(client, request(t, holding(t.Context()), named.URL+"/away")).body)

	req = request(t, t.Context(), named.URL+"/away")
	req.Header.Set(httpguard.Header, both)
	require.Empty(t, named.send(client, req).body, "nor is a field that was set by hand")

	// Back to a host that is named they go again.
	back := serve(t, echo(named.URL), false)
	require.Equal(t, both, named.send(client, request(t, holding(t.Context()), back.URL+"/away")).body)
}

func TestTransportOverHTTP2(t *testing.T) {
	t.Parallel()
	s := serve(t, echo(""), true)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	base := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	client := &http.Client{Transport: httpguard.Transport{Base: base, Hosts: []string{s.Listener.Addr().String()}}}
	defer client.CloseIdleConnections()
	got := s.send(client, request(t, holding(t.Context()), s.URL))
	require.Equal(t, 2, got.major)
	require.Equal(t, both, got.body)
}

func TestFromLeaseToHandler(t *testing.T) {
	t.Parallel()
	b := &bank{}
	s := serve(t, b.mux(httpguard.Middleware{Resources: accounts, Store: at(t)}), false)
	client := &http.Client{
		Transport: httpguard.Transport{Hosts: []string{s.Listener.Addr().String()}},
		Timeout:   time.Minute,
	}
	defer client.CloseIdleConnections()
	locker := token.Locker{Issuer: &memtoken.Issuer{}, Name: "größe"}
	err := locker.Hold(t.Context(), "account/42", func(ctx context.Context) error {
		tok, err := token.FromContext(ctx, "account/42")
		require.NoError(t, err)
		require.Equal(t, http.StatusNoContent, s.send(client, request(t, ctx, s.URL+"/accounts/42")).status)
		require.Equal(t, []string{"PUT " + tok.String()}, b.written())
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, http.StatusPreconditionRequired,
		s.send(client, request(t, httptest.NewRequest("GET", "/", nil).Context(), s.URL+"/accounts/42")).status)
}
