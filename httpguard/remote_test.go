package httpguard_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

func TestARemoteRefusalIsALocalOne(t *testing.T) {
	t.Parallel()
	b := &bank{}
	handler := func() http.Handler { return b.mux(httpguard.Middleware{Resources: accounts, Store: at(t)}) }
	everyProtocol(t, handler, func(t *testing.T, s site) {
		client := &http.Client{Transport: httpguard.Transport{Base: s.Client().Transport, Hosts: []string{s.Listener.Addr().String()}}}
		put := func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, "PUT", s.URL+"/accounts/42", strings.NewReader("100"))
			require.NoError(t, err)
			resp, err := client.Do(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			return err
		}
		stale := tok("account/42", 32, "b")
		ctx := token.NewContext(token.NewContext(t.Context(), stale), tok("account/7", 1, "h"))
		err := put(ctx)
		require.ErrorIs(t, err, guard.ErrStale)
		require.True(t, guard.Refusal(err))
		var refused *guard.StaleError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, guard.StaleError{Token: stale}, *refused, "the token of two, and no mark")
		require.NotContains(t, err.Error(), "#33")

		err = put(token.NewContext(t.Context(), tok("account/42", 33, "b")))
		require.ErrorIs(t, err, guard.ErrStale)
		require.NotErrorIs(t, err, guard.ErrCollision, "which would tell the mark's number")
		require.NoError(t, put(token.NewContext(t.Context(), tok("account/42", 34, "b"))))
	})
}

func TestWhichAnswersAreErrors(t *testing.T) {
	t.Parallel()
	const ours = `{"type":"` + httpguard.ProblemStale + `","resource":"a"}`
	for name, c := range map[string]struct {
		status  int
		kind    string
		body    string
		host    string
		refused string // the resource of the token; "-" is none that can be told
	}{
		"ours":                                  {412, "application/problem+json", ours, "api.example", "a"},
		"with a charset":                        {412, "Application/Problem+JSON; charset=utf-8", ours, "api.example", "a"},
		"of a resource that was not sent":       {412, "application/problem+json", strings.Replace(ours, `"a"`, `"c"`, 1), "api.example", "-"},
		"of another, and one was sent":          {412, "application/problem+json", ours, "one.example", "-"},
		"of no resource":                        {412, "application/problem+json", `{"type":"` + httpguard.ProblemStale + `"}`, "api.example", "-"},
		"the service's own 412":                 {412, "application/json", `{"etag":"x"}`, "api.example", ""},
		"a 412 of another type":                 {412, "application/problem+json", `{"type":"about:blank"}`, "api.example", ""},
		"a 412 that is no JSON":                 {412, "application/problem+json", `<html>`, "api.example", ""},
		"our type with another status":          {409, "application/problem+json", ours, "api.example", ""},
		"a 412 that is longer than any of ours": {412, "application/problem+json", `{"detail":"` + strings.Repeat("x", 20<<10) + `",` + ours[1:], "api.example", ""},
		"from a host that was sent no token":    {412, "application/problem+json", ours, "evil.example", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := &closing{Reader: strings.NewReader(c.body)}
			ctx := holding(t.Context())
			if c.host == "one.example" {
				ctx = token.NewContext(t.Context(), tok("b", 1, "h"))
			}
			transport := httpguard.Transport{Hosts: []string{"api.example", "one.example"}, Base: tripFunc(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: c.status, Header: http.Header{"Content-Type": {c.kind}}, Body: body}, nil
			})}
			resp, err := transport.RoundTrip(request(t, ctx, "http://"+c.host+"/x"))
			if c.refused == "" {
				require.NoError(t, err)
				got, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Equal(t, c.body, string(got), "as it was")
				require.NoError(t, resp.Body.Close())
				require.True(t, body.closed)
				return
			}
			require.Nil(t, resp)
			require.True(t, body.closed)
			require.ErrorIs(t, err, guard.ErrStale)
			var refused *guard.StaleError
			require.Equal(t, c.refused != "-", errors.As(err, &refused))
			if refused != nil {
				require.Equal(t, c.refused, refused.Token.Resource)
			}
		})
	}
}

// A service in the middle: what it was refused further on is its own answer.
func TestARefusalTravelsBack(t *testing.T) {
	t.Parallel()
	inner := serve(t, (&bank{}).mux(httpguard.Middleware{Resources: accounts, Store: at(t)}), false)
	u, err := url.Parse(inner.URL)
	require.NoError(t, err)
	client := &http.Client{Transport: httpguard.Transport{Base: inner.Client().Transport, Hosts: []string{u.Host}}}
	mux := http.NewServeMux()
	mux.Handle("PUT /accounts/{id}", httpguard.Middleware{Resources: accounts}.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req, err := http.NewRequestWithContext(r.Context(), "PUT", inner.URL+r.URL.Path, http.NoBody)
		if err == nil {
			_, err = client.Do(req)
		}
		httpguard.Error(w, r, err)
	})))
	got := serve(t, mux, false).do("PUT", "/accounts/42", line("account/42", 32, "b"))
	require.Equal(t, http.StatusPreconditionFailed, got.status)
	require.Equal(t, httpguard.ProblemStale, got.problem(t)["type"])
	require.Equal(t, "account/42", got.problem(t)["resource"])
}
