package httpguard_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
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

// hazard W10
// One table of what a request's context, URL and fields make a Transport send. The base
// connects every host to one server, which returns the fields that it has received.
func TestWhatTransportSends(t *testing.T) {
	t.Parallel()
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{httpguard.Header, "Idempotency-Key", "X-Else"} {
			w.Header()["Got-"+name] = r.Header[name]
		}
		_, _ = io.Copy(w, r.Body)
	}), false)
	base := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
	}}
	t.Cleanup(base.CloseIdleConnections)
	const a, b, own, low = `1;r="a";h="h"`, `2;r="b";h="h"`, `7;r="c";h="h"`, "fencing-token"
	const several, noHosts = "tokens: name the resources", "Transport.Hosts is empty"
	differ := httpguard.ErrTwoSources.Error()
	none, names := t.Context(), httpguard.WithResources
	one := token.NewContext(none, tok("a", 1, "h"))
	two := token.NewContext(one, tok("b", 2, "h"))
	named := holding(none)
	incomplete := token.NewContext(two, token.Token{Resource: "c", Number: 1})
	key := func(key string) context.Context { return httpguard.WithIdempotencyKey(none, key) }
	many := none
	for i := range httpguard.MaxMembers + 1 {
		many = token.NewContext(many, tok(fmt.Sprint("account/", i), 33, "h"))
	}
	set := func(field string) http.Header { return http.Header{httpguard.Header: {field}} }
	live, lease := leased(t).Context(), leased(t)
	held, err := httpguard.Format(token.All(live)...)
	require.NoError(t, err)
	released := context.WithoutCancel(lease.Context())
	require.NoError(t, lease.Release(t.Context()))
	for name, c := range map[string]struct {
		ctx    context.Context
		hosts  []string // nil: api.example
		url    string   // empty: http://api.example/x
		method string   // empty: PUT
		set    http.Header
		want   string // the lines of Fencing-Token
		key    string // and of Idempotency-Key
		err    string // nothing is sent
	}{
		"host: the second one":                  {ctx: named, hosts: []string{"other", "api.example"}, want: both},
		"host: letters of any case":             {ctx: named, hosts: []string{"api.EXAMPLE"}, url: "http://API.example/x", want: both},
		"host: a port that is named":            {ctx: named, hosts: []string{"api.example:81"}, url: "http://api.example:81/x", want: both},
		"host: an address":                      {ctx: named, hosts: []string{"[::1]:81"}, url: "http://[::1]:81/x", want: both},
		"host: another":                         {ctx: named, url: "http://evil.example/x"},
		"host: one that ends the same":          {ctx: named, url: "http://evil-api.example/x"},
		"host: a subdomain":                     {ctx: named, url: "http://v1.api.example/x"},
		"host: one that begins the same":        {ctx: named, url: "http://api.example.evil/x"},
		"host: a port that is not named":        {ctx: named, url: "http://api.example:81/x"},
		"host: a port that is not in the URL":   {ctx: named, hosts: []string{"api.example:80"}},
		"host: a user that looks like the host": {ctx: named, url: "http://api.example@evil.example/x"},
		"host: a star is no wildcard":           {ctx: named, hosts: []string{"*", "*.example"}},

		"one token":                     {ctx: one, want: a},
		"no token":                      {ctx: none},
		"one of two":                    {ctx: names(two, "b"), want: b},
		"both":                          {ctx: named, want: both},
		"named again":                   {ctx: names(names(two, "a"), "b"), want: b},
		"one of 65":                     {ctx: names(many, "account/42"), want: line("account/42", 33, "h")},
		"none of 65":                    {ctx: names(many)},
		"two, none named":               {ctx: two, err: several},
		"65, none named":                {ctx: many, err: several},
		"a name without a token":        {ctx: names(two, "b", "c"), err: "no token for c"},
		"a name of an incomplete token": {ctx: names(incomplete, "c"), err: "holder"},
		"an incomplete token":           {ctx: token.NewContext(none, token.Token{Resource: "c", Number: 1}), err: "holder"},
		"a lease":                       {ctx: live, want: held},
		"a released lease":              {ctx: released},
		"a name of a released lease":    {ctx: names(released, "account/42"), err: token.ErrReleased.Error()},
		"no hosts":                      {ctx: none, hosts: []string{}},
		"no hosts, none needed":         {ctx: names(two), hosts: []string{}},
		"no hosts, a token":             {ctx: one, hosts: []string{}, err: noHosts},
		"no hosts, a name":              {ctx: names(two, "b"), hosts: []string{}, err: noHosts},
		"no hosts, a key":               {ctx: key("k"), hosts: []string{}, err: noHosts},
		"no hosts, a field":             {ctx: none, hosts: []string{}, set: set(a), err: noHosts},
		"an empty host":                 {ctx: one, hosts: []string{""}, err: noHosts},
		"another host, none named":      {ctx: two, url: "http://evil.example/x"},
		"another host, a name":          {ctx: names(two, "c"), url: "http://evil.example/x"},

		"set, and the context carries nothing": {ctx: none, set: http.Header{low: {own}}, want: own},
		"set, nothing, and it is malformed":    {ctx: none, set: http.Header{low: {"7"}}, want: "7"},
		"set, one of two":                      {ctx: two, set: set(b), want: b},
		"set, one more":                        {ctx: two, set: set(b + ", " + own), err: differ},
		"set, another than named":              {ctx: names(two, "a"), set: set(b), err: differ},
		"set, more than named":                 {ctx: names(two, "a"), set: set(both), err: differ},
		"set, fewer than named":                {ctx: named, set: set(a), err: differ},
		"set, and none needed":                 {ctx: names(two), set: set(a), err: differ},
		"set, the same":                        {ctx: named, set: http.Header{low: {both}}, want: both},
		"set, the same in other words":         {ctx: named, set: http.Header{low: {`2;h="h";r="b";y`, `01;r="a";h=%"h"`}}, want: `2;h="h";r="b";y|01;r="a";h=%"h"`},
		"set, others":                          {ctx: named, set: http.Header{low: {own}}, err: differ},
		"set, two of it":                       {ctx: named, set: http.Header{low: {both, own}}, err: differ},
		"set, malformed":                       {ctx: named, set: set("7"), err: differ},
		"set, empty":                           {ctx: one, set: http.Header{low: {""}}, err: differ},
		"set in two cases, one differs":        {ctx: named, set: http.Header{low: {own}, httpguard.Header: {both}}, err: differ},
		"set in two cases, the same":           {ctx: named, set: http.Header{low: {both}, "FENCING-TOKEN": {both}}, err: differ},
		"set in three cases, another host":     {ctx: named, url: "http://evil.example", set: http.Header{low: {own}, "FENCING-TOKEN": {own}, httpguard.Header: {own}}},
		"set to both, another host":            {ctx: named, url: "http://evil.example", set: set(both)},

		"key":                             {ctx: key("8e03978e"), key: `"8e03978e"`},
		"key: quotes and spaces":          {ctx: key(`a "b" \c`), key: `"a \"b\" \\c"`},
		"key: a safe method":              {ctx: key("k"), method: "GET"},
		"key: another host":               {ctx: key("k"), url: "http://evil.example"},
		"key: beside tokens":              {ctx: httpguard.WithIdempotencyKey(named, "k"), want: both, key: `"k"`},
		"key: set":                        {ctx: none, set: http.Header{"Idempotency-Key": {"k"}}, key: "k"},
		"key: set, for another host":      {ctx: none, url: "http://pay.example", set: http.Header{"Idempotency-Key": {"k"}}, key: "k"},
		"key: set, the same":              {ctx: key("k"), set: http.Header{"Idempotency-Key": {"k"}}, key: "k"},
		"key: set, another":               {ctx: key("k"), set: http.Header{"Idempotency-Key": {"l"}}, err: differ},
		"key: set, another in lower case": {ctx: key("k"), set: http.Header{"idempotency-key": {"l"}}, err: differ},
		"key: set, two lines":             {ctx: key("k"), set: http.Header{"Idempotency-Key": {"k", "k"}}, err: differ},
		"key: an empty one":               {ctx: key(""), err: "must be printable ASCII"},
		"key: other letters than ASCII's": {ctx: key("größe"), err: "must be printable ASCII"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.hosts == nil {
				c.hosts = []string{"api.example"}
			}
			req := request(t, c.ctx, cmp.Or(c.url, "http://api.example/x"))
			req.Method = cmp.Or(c.method, "PUT")
			req.Host = "api.example" // the URL decides
			maps.Copy(req.Header, c.set)
			req.Header["X-Else"] = []string{"1"}
			body := &closing{Reader: req.Body}
			req.Body = body
			before := req.Header.Clone()
			resp, err := httpguard.Transport{Hosts: c.hosts, Base: base}.RoundTrip(req)
			require.Equal(t, before, req.Header, "the caller's request is not touched")
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.NotErrorIs(t, err, guard.ErrUnknown)
				require.Equal(t, c.err == differ, errors.Is(err, httpguard.ErrTwoSources))
				require.Nil(t, resp)
				require.True(t, body.closed)
				req.Body = nil
				_, err = httpguard.Transport{Hosts: c.hosts, Base: base}.RoundTrip(req)
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			sent, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, "body", string(sent))
			require.Equal(t, []string{c.want, c.key, "1"}, []string{
				strings.Join(resp.Header["Got-"+httpguard.Header], "|"), resp.Header.Get("Got-Idempotency-Key"), resp.Header.Get("Got-X-Else"),
			})
		})
	}
}

// closing is a body that records whether it was closed.
type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

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

func TestTransportReturnsItsBasesErrors(t *testing.T) {
	t.Parallel()
	cut := errors.New("cut off")
	transport := httpguard.Transport{Base: tripFunc(func(*http.Request) (*http.Response, error) { return nil, cut })}
	_, err := transport.RoundTrip(request(t, t.Context(), "http://api.example"))
	require.ErrorIs(t, err, cut)
	transport.CloseIdleConnections() // which its base cannot
}
