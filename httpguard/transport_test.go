package httpguard_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// tripFunc is a RoundTripper that records what a Transport passes on.
type tripFunc func(*http.Request) (*http.Response, error)

func (f tripFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// pass sends req through a Transport for hosts and returns what came out.
func pass(t *testing.T, req *http.Request, hosts ...string) (*http.Request, error) {
	t.Helper()
	var out *http.Request
	_, err := httpguard.Transport{Hosts: hosts, Base: tripFunc(func(req *http.Request) (*http.Response, error) {
		out = req
		return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
	})}.RoundTrip(req)
	return out, err
}

func request(t *testing.T, ctx context.Context, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, "PUT", url, strings.NewReader("body"))
	require.NoError(t, err)
	return req
}

func holding(ctx context.Context) context.Context {
	return token.NewContext(token.NewContext(ctx, tok("b", 2, "h")), tok("a", 1, "h"))
}

const both = `1;r="a";h="h", 2;r="b";h="h"`

func TestTransportChoosesHosts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		url   string
		hosts []string
		want  string
	}{
		"a host that is named":            {"http://api.example/x", []string{"api.example"}, both},
		"the second one":                  {"http://api.example/x", []string{"other", "api.example"}, both},
		"letters of any case":             {"http://API.example/x", []string{"api.EXAMPLE"}, both},
		"a port that is named":            {"http://api.example:81/x", []string{"api.example:81"}, both},
		"an address":                      {"http://[::1]:81/x", []string{"[::1]:81"}, both},
		"no hosts":                        {"http://api.example/x", nil, ""},
		"an empty name":                   {"http://api.example/x", []string{""}, ""},
		"another host":                    {"http://evil.example/x", []string{"api.example"}, ""},
		"a host that ends the same":       {"http://evil-api.example/x", []string{"api.example"}, ""},
		"a subdomain":                     {"http://v1.api.example/x", []string{"api.example"}, ""},
		"a host that begins the same":     {"http://api.example.evil/x", []string{"api.example"}, ""},
		"a port that is not named":        {"http://api.example:81/x", []string{"api.example"}, ""},
		"a port that is not in the URL":   {"http://api.example/x", []string{"api.example:80"}, ""},
		"a user that looks like the host": {"http://api.example@evil.example/x", []string{"api.example"}, ""},
		"a star is no wildcard":           {"http://api.example/x", []string{"*", "*.example"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := request(t, holding(t.Context()), test.url)
			before := req.Clone(req.Context())
			out, err := pass(t, req, test.hosts...)
			require.NoError(t, err)
			require.Equal(t, test.want, out.Header.Get(httpguard.Header))
			require.Equal(t, before.Header, req.Header, "the caller's request is not touched")
			require.Equal(t, req.Body, out.Body)
		})
	}
}

func TestTransportComparesTheURLNotTheHostField(t *testing.T) {
	t.Parallel()
	req := request(t, holding(t.Context()), "http://evil.example/x")
	req.Host = "api.example"
	out, err := pass(t, req, "api.example")
	require.NoError(t, err)
	require.NotContains(t, out.Header, httpguard.Header)
}

func TestTransportAndAFieldThatIsSet(t *testing.T) {
	t.Parallel()
	const own = `7;r="c";h="h"`
	for name, test := range map[string]struct {
		ctx  context.Context
		url  string
		set  []string
		want []string
		err  error
	}{
		"the context carries nothing":      {t.Context(), "http://api.example", []string{own}, []string{own}, nil},
		"the context carries the same":     {holding(t.Context()), "http://api.example", []string{both}, []string{both}, nil},
		"the same in other words":          {holding(t.Context()), "http://api.example", []string{`2;h="h";r="b";y`, `01;r="a";h=%"h"`}, []string{`2;h="h";r="b";y`, `01;r="a";h=%"h"`}, nil},
		"a malformed one":                  {holding(t.Context()), "http://api.example", []string{"7"}, nil, httpguard.ErrTwoSources},
		"the context carries others":       {holding(t.Context()), "http://api.example", []string{own}, nil, httpguard.ErrTwoSources},
		"the context carries one of two":   {holding(t.Context()), "http://api.example", []string{both, own}, nil, httpguard.ErrTwoSources},
		"the host is not named":            {t.Context(), "http://evil.example", []string{own}, nil, nil},
		"the host is not named, with both": {holding(t.Context()), "http://evil.example", []string{both}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := request(t, test.ctx, test.url)
			req.Header[httpguard.Header] = test.set
			out, err := pass(t, req, "api.example")
			require.ErrorIs(t, err, test.err)
			require.Equal(t, test.set, req.Header[httpguard.Header], "the caller's request is not touched")
			if test.err == nil {
				require.Equal(t, test.want, out.Header[httpguard.Header])
			}
		})
	}
}

// closing is a body that records whether it was closed.
type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

func TestTransportThatCannotSend(t *testing.T) {
	t.Parallel()
	body := &closing{Reader: strings.NewReader("body")}
	req := request(t, token.NewContext(t.Context(), token.Token{Resource: "a", Number: 1}), "http://api.example")
	req.Body = body
	out, err := pass(t, req, "api.example")
	require.ErrorIs(t, err, token.ErrInvalid)
	require.Nil(t, out, "nothing was sent")
	require.True(t, body.closed)

	req.Body = nil
	_, err = pass(t, req, "api.example")
	require.ErrorIs(t, err, token.ErrInvalid)
}

func TestTransportTakesARequestWithoutHeader(t *testing.T) {
	t.Parallel()
	u, err := url.Parse("http://api.example")
	require.NoError(t, err)
	req := (&http.Request{URL: u}).WithContext(holding(t.Context()))
	out, err := pass(t, req, "api.example")
	require.NoError(t, err)
	require.Equal(t, both, out.Header.Get(httpguard.Header))
	require.Nil(t, req.Header)
}

func TestTransportDoesNotSendReleasedTokens(t *testing.T) {
	t.Parallel()
	locker := lock.Locker{Issuer: &memtoken.Issuer{}, Name: "test", DangerouslyWithoutClaim: true}
	lease, err := locker.Acquire(t.Context(), "account/42")
	require.NoError(t, err)
	ctx := context.WithoutCancel(lease.Context())
	require.NoError(t, lease.Release(t.Context()))
	out, err := pass(t, request(t, ctx, "http://api.example"), "api.example")
	require.NoError(t, err)
	require.NotContains(t, out.Header, httpguard.Header)
}

func TestTransportReturnsItsBasesErrors(t *testing.T) {
	t.Parallel()
	cut := errors.New("cut off")
	transport := httpguard.Transport{Base: tripFunc(func(*http.Request) (*http.Response, error) { return nil, cut })}
	_, err := transport.RoundTrip(request(t, t.Context(), "http://api.example"))
	require.ErrorIs(t, err, cut)
	transport.CloseIdleConnections() // which its base cannot
}

func TestTransportAndAFieldThatIsSetInAnotherCase(t *testing.T) {
	t.Parallel()
	const own, low = `7;r="c";h="h"`, "fencing-token"
	for name, test := range map[string]struct {
		ctx  context.Context
		url  string
		set  http.Header
		want http.Header
		err  error
	}{
		"the context carries nothing":    {t.Context(), "http://api.example", http.Header{low: {own}}, http.Header{low: {own}}, nil},
		"the context carries the same":   {holding(t.Context()), "http://api.example", http.Header{low: {both}}, http.Header{low: {both}}, nil},
		"the context carries others":     {holding(t.Context()), "http://api.example", http.Header{low: {own}}, nil, httpguard.ErrTwoSources},
		"both ways, one of them differs": {holding(t.Context()), "http://api.example", http.Header{low: {own}, httpguard.Header: {both}}, nil, httpguard.ErrTwoSources},
		"twice the same":                 {holding(t.Context()), "http://api.example", http.Header{low: {both}, "FENCING-TOKEN": {both}}, nil, httpguard.ErrTwoSources},
		"the host is not named":          {holding(t.Context()), "http://evil.example", http.Header{low: {own}, "FENCING-TOKEN": {own}, httpguard.Header: {own}, "X-Else": {"1"}}, http.Header{"X-Else": {"1"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := request(t, test.ctx, test.url)
			req.Header = test.set
			before := test.set.Clone()
			out, err := pass(t, req, "api.example")
			require.ErrorIs(t, err, test.err)
			require.Equal(t, before, req.Header, "the caller's request is not touched")
			if test.err == nil {
				require.Equal(t, test.want, out.Header)
			}
		})
	}
}

func TestARedirectDoesNotTakeAFieldOfAnotherCaseAlong(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get(httpguard.Header))
	}))
	t.Cleanup(elsewhere.Close)
	named := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	t.Cleanup(named.Close)
	u, err := url.Parse(named.URL)
	require.NoError(t, err)

	send := func(transport http.RoundTripper) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, named.URL, strings.NewReader(""))
		require.NoError(t, err)
		req.Header["fencing-token"] = []string{both}
		res, err := (&http.Client{Transport: transport}).Do(req)
		require.NoError(t, err)
		got, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return string(got)
	}
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	require.Empty(t, send(httpguard.Transport{Base: base, Hosts: []string{u.Host}}))
	require.Equal(t, both, send(base), "the twin: net/http copies it to wherever it is sent")
}
