package httpguard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
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

// holding returns a context with the tokens of two resources, and names both.
func holding(ctx context.Context) context.Context {
	return httpguard.WithResources(token.NewContext(token.NewContext(ctx, tok("b", 2, "h")), tok("a", 1, "h")), "b", "a", "b")
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

// hazard W10
func TestTransportSendsTheTokensThatARequestNeeds(t *testing.T) {
	t.Parallel()
	const a, b, c = `1;r="a";h="h"`, `2;r="b";h="h"`, `3;r="c";h="h"`
	var fields []string
	s := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fields = append(fields, strings.Join(r.Header[httpguard.Header], ", "))
	}), false)
	host, names := []string{s.Listener.Addr().String()}, httpguard.WithResources
	one := token.NewContext(t.Context(), tok("a", 1, "h"))
	two := token.NewContext(one, tok("b", 2, "h"))
	keyed, many := httpguard.WithIdempotencyKey(t.Context(), "k"), t.Context()
	for i := range httpguard.MaxMembers + 1 {
		many = token.NewContext(many, tok(fmt.Sprint("account/", i), 33, "h"))
	}
	const several, noHosts, differ = "tokens: name the resources", "Transport.Hosts is empty", "differ"
	for name, c := range map[string]struct {
		ctx   context.Context
		hosts []string
		set   string // the field that the caller sets
		want  string
		err   string // nothing is sent
	}{
		"one token":                     {one, host, "", a, ""},
		"no token":                      {t.Context(), host, "", "", ""},
		"a key alone":                   {keyed, host, "", "", ""},
		"one of two":                    {names(two, "b"), host, "", b, ""},
		"both":                          {names(two, "b", "a", "b"), host, "", a + ", " + b, ""},
		"named again":                   {names(names(two, "a"), "b"), host, "", b, ""},
		"one of 65":                     {names(many, "account/42"), host, "", line("account/42", 33, "h"), ""},
		"none of 65":                    {names(many), host, "", "", ""},
		"two, none named":               {two, host, "", "", several},
		"65, none named":                {many, host, "", "", several},
		"a name without a token":        {names(two, "b", "c"), host, "", "", "no token for c"},
		"a name of an incomplete token": {names(token.NewContext(two, token.Token{Resource: "c", Number: 1}), "c"), host, "", "", "holder"},
		"set, one of two":               {two, host, b, b, ""},
		"set, one more":                 {two, host, b + ", " + c, "", differ},
		"set, another than named":       {names(two, "a"), host, b, "", differ},
		"set, more than named":          {names(two, "a"), host, both, "", differ},
		"set, and none needed":          {names(two), host, a, "", differ},
		"no hosts":                      {t.Context(), nil, "", "", ""},
		"no hosts, none needed":         {names(two), nil, "", "", ""},
		"no hosts, a token":             {one, nil, "", "", noHosts},
		"no hosts, a name":              {names(two, "b"), nil, "", "", noHosts},
		"no hosts, a key":               {keyed, nil, "", "", noHosts},
		"no hosts, a field":             {t.Context(), nil, a, "", noHosts},
		"an empty host":                 {one, []string{""}, "", "", noHosts},
		"another host":                  {two, []string{"api.example"}, "", "", ""},
		"another host, a name":          {names(two, "c"), []string{"api.example"}, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			fields = nil
			req := request(t, c.ctx, s.URL)
			if c.set != "" {
				req.Header.Set(httpguard.Header, c.set)
			}
			resp, err := (&http.Client{Transport: httpguard.Transport{Hosts: c.hosts, Base: s.Client().Transport}}).Do(req)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.NotErrorIs(t, err, guard.ErrUnknown)
				require.Empty(t, fields, "the server saw a request")
				return
			}
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, []string{c.want}, fields)
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
	_, err = pass(t, request(t, httpguard.WithResources(ctx, "account/42"), "http://api.example"), "api.example")
	require.ErrorIs(t, err, token.ErrReleased)
}

func TestTransportReturnsItsBasesErrors(t *testing.T) {
	t.Parallel()
	cut := errors.New("cut off")
	transport := httpguard.Transport{Base: tripFunc(func(*http.Request) (*http.Response, error) { return nil, cut })}
	_, err := transport.RoundTrip(request(t, t.Context(), "http://api.example"))
	require.ErrorIs(t, err, cut)
	transport.CloseIdleConnections() // which its base cannot
}

func TestTransportAndAFieldThatIsSet(t *testing.T) {
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
		"nothing, and it is malformed":   {t.Context(), "http://api.example", http.Header{low: {"7"}}, http.Header{low: {"7"}}, nil},
		"the same in other words":        {holding(t.Context()), "http://api.example", http.Header{low: {`2;h="h";r="b";y`, `01;r="a";h=%"h"`}}, http.Header{low: {`2;h="h";r="b";y`, `01;r="a";h=%"h"`}}, nil},
		"a malformed one":                {holding(t.Context()), "http://api.example", http.Header{httpguard.Header: {"7"}}, nil, httpguard.ErrTwoSources},
		"an empty one":                   {token.NewContext(t.Context(), tok("a", 1, "h")), "http://api.example", http.Header{low: {""}}, nil, httpguard.ErrTwoSources},
		"the context carries two of it":  {holding(t.Context()), "http://api.example", http.Header{low: {both, own}}, nil, httpguard.ErrTwoSources},
		"the context carries the same":   {holding(t.Context()), "http://api.example", http.Header{low: {both}}, http.Header{low: {both}}, nil},
		"the context carries others":     {holding(t.Context()), "http://api.example", http.Header{low: {own}}, nil, httpguard.ErrTwoSources},
		"both ways, one of them differs": {holding(t.Context()), "http://api.example", http.Header{low: {own}, httpguard.Header: {both}}, nil, httpguard.ErrTwoSources},
		"twice the same":                 {holding(t.Context()), "http://api.example", http.Header{low: {both}, "FENCING-TOKEN": {both}}, nil, httpguard.ErrTwoSources},
		"the host is not named":          {holding(t.Context()), "http://evil.example", http.Header{low: {own}, "FENCING-TOKEN": {own}, httpguard.Header: {own}, "X-Else": {"1"}}, http.Header{"X-Else": {"1"}}, nil},
		"nor is it, and it carries both": {holding(t.Context()), "http://evil.example", http.Header{httpguard.Header: {both}}, http.Header{}, nil},
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
